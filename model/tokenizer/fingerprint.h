#pragma once

#include <string>

#include "model/tokenizer/spec.h"

namespace nibble::model {

/// Hash of everything in the spec that decides how text becomes ids.
std::string fingerprint(const TokenizerSpec& spec);

}  // namespace nibble::model
