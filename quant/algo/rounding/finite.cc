#include "quant/algo/rounding/finite.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "quant/algo/rounding/block_kernels.h"

namespace nibble::quant {

std::optional<ValueRange> finite_range(std::span<const float> values) {
  ValueRange range;
  const auto block_extremes = block_kernels::active().block_extremes;  // all values as one block
  if (values.empty() || !block_extremes(values.data(), values.size(), values.size(), &range.low, &range.high))
    return std::nullopt;
  return range;
}

std::optional<std::size_t> first_not_finite(std::span<const float> values) {
  if (values.empty() || finite_range(values)) return std::nullopt;
  const auto bad = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  return static_cast<std::size_t>(bad - values.begin());
}

void require_finite_hessian(MatrixView<const float> h) {
  for (std::size_t i = 0; i < h.rows(); ++i)
    if (const auto j = first_not_finite(h.row(i)))
      throw NumericalError(fmt::format("Hessian: {} at ({}, {}) is not finite", h(i, *j), i, *j));
}

}  // namespace nibble::quant
