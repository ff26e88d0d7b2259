#pragma once

#include <cstddef>

#include "model/architecture/architecture.h"

namespace nibble::model {

/// Throws InvalidArgument, naming block and setting, unless `read`, what the metadata and tensors of a file come to
/// when read as llama.cpp reads them, computes what `network` does up to `context` positions: kinds of norms, scales,
/// windows, rotary frequencies, activations, routing. Numbers may differ by the rounding of a float.
void require_same_network(const Architecture& network, const Architecture& read, std::size_t context);

}  // namespace nibble::model
