#pragma once

#include <cstdint>

#include "model/architecture/architecture.h"
#include "model/checkpoint/checkpoint.h"

namespace nibble::eval {

/// Bytes of stored weights that one generated token has to read: all tensors of the network but positions, and but the
/// embedding unless it serves as the head too (of both only one row is read), and of a mixture its active share.
std::uint64_t weight_bytes_per_token(const model::Checkpoint& checkpoint, const model::Architecture& architecture);

/// The part of them that is the head's.
std::uint64_t head_bytes(const model::Checkpoint& checkpoint, const model::Architecture& architecture);

}  // namespace nibble::eval
