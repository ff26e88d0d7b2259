#pragma once

#include <cstddef>
#include <optional>

#include "model/checkpoint/checkpoint.h"

namespace nibble::model {

/// Index (row-major) of the first NaN or infinity in a tensor of F64, F32, F16, BF16 or 8-bit floats; empty if there is
/// none, and for integer tensors. Cost: one pass over the bytes up to there.
std::optional<std::size_t> first_non_finite(const TensorView& tensor);

}  // namespace nibble::model
