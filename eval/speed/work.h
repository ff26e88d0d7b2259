#pragma once

#include <cstdint>

#include "model/checkpoint/checkpoint.h"
#include "model/transformer/config.h"

namespace nibble::eval {

/// Float operations of a prompt of `tokens` behind no other: 2 · tokens · weights of the block linears, the causal
/// scores and sums 4 · q_width · tokens (tokens + 1) / 2 · layers, and the head for the last row.
double prompt_flops(const model::Config& config, std::size_t tokens);

/// Bytes of stored weights that one generated token has to read: all tensors but positions, and but the embedding
/// unless it serves as the head too (of both only one row is read).
std::uint64_t weight_bytes_per_token(const model::Checkpoint& checkpoint, const model::Config& config);

/// The part of them that is the head's.
std::uint64_t head_bytes(const model::Checkpoint& checkpoint, const model::Config& config);

}  // namespace nibble::eval
