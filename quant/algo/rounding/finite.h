#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/matrix/matrix_view.h"

namespace nibble::quant {

/// Least and largest of some values, unless there is a NaN or infinity among them (or no value at all).
struct ValueRange {
  float low = 0.0f, high = 0.0f;
};

/// The range of finite values; empty when one is not. Runs near memory speed.
std::optional<ValueRange> finite_range(std::span<const float> values);

/// The index of the first NaN or infinity, if there is one.
std::optional<std::size_t> first_not_finite(std::span<const float> values);

/// Throws NumericalError naming the first element of a Hessian that is none.
void require_finite_hessian(MatrixView<const float> h);

}  // namespace nibble::quant
