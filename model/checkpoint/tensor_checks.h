#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "model/checkpoint/checkpoint.h"

namespace nibble::model {

/// Index (row-major) of the first NaN or infinity in a F64, F32, F16 or BF16 tensor; empty if there is none, and for
/// integer tensors. Cost: one pass over the bytes up to there.
std::optional<std::size_t> first_non_finite(const TensorView& tensor);

/// Whether `name` is a constant that old checkpoints carry along and that is no parameter: GPT-2's causal masks
/// (`[transformer.]h.N.attn.bias`, `….attn.masked_bias`) and Llama's `….rotary_emb.inv_freq`.
bool is_ignored_buffer(std::string_view name);

}  // namespace nibble::model
