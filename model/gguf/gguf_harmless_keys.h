#pragma once

#include <string_view>

#include "model/gguf/gguf_value.h"

namespace nibble::model {

/// Whether a key of an architecture (`key` without its name) that the reader of that architecture did not ask for
/// leaves the network alone: it says nothing of it, or what the tensors' shapes say too, or this value switches off
/// what it is a setting of.
bool is_harmless_gguf_key(std::string_view key, const GgufValue& value);

}  // namespace nibble::model
