#pragma once

#include <string>

#include "model/architecture/architecture.h"
#include "model/gguf/gguf_value.h"

namespace nibble::model {

/// Adds all that llama.cpp's converter says of such a network, in its order and types (whole numbers UINT32, others
/// FLOAT32): `general.architecture`, `general.type`, `general.name`, `general.size_label`, then the keys of the
/// architecture. Throws as gguf_architecture_for(), and for numbers above 2^32.
///
/// The context length is how far the network and what llama.cpp makes of it are the same: the window where llama.cpp
/// has none for it, the first context where frequencies change behind it.
void describe_gguf(GgufMetadata& metadata, const Architecture& architecture, const std::string& name);

}  // namespace nibble::model
