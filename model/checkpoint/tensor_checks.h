#pragma once

#include <cstddef>
#include <optional>

#include "model/checkpoint/checkpoint.h"

namespace nibble::model {

/// Index (row-major) of the first NaN or infinity in a F64, F32, F16 or BF16 tensor; empty if there is none, and for
/// integer tensors. Cost: one pass over the bytes up to there.
std::optional<std::size_t> first_non_finite(const TensorView& tensor);

}  // namespace nibble::model
