#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/gguf/gguf_names.h"

namespace nibble::model {

/// How many positions llama.cpp computes as the network does: max_positions, or less where it has no window for these
/// blocks (then the window), or where frequencies change behind a first context (then that).
std::size_t gguf_context(const Architecture& architecture, const GgufArchitecture& names);

/// The architecture of llama.cpp that computes this network. Throws InvalidArgument naming the family where it has
/// none, and naming block and setting where its code does something else than the network: another activation, windows
/// in other blocks, another scale of scores …
const GgufArchitecture& gguf_architecture_for(const Architecture& architecture);

/// What a user should know of the file: a context that was cut, and where llama.cpp's values differ for all files of
/// such networks.
std::vector<std::string> gguf_notes(const Architecture& architecture, const GgufArchitecture& names);

}  // namespace nibble::model
