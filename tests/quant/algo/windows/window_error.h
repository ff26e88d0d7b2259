#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/matrix/matrix_view.h"
#include "quant/algo/windows/window_rounding.h"

namespace nibble::quant {

/// Mean squared error of values (rows, inputs), each input's in the best stream of windows into `palette`.
inline double window_error(std::span<const float> palette, unsigned bits, const Matrix<float>& values) {
  const WindowRounding rounding(palette, bits, values.rows(), {});
  std::vector<float> column(values.rows()), decoded(values.rows());
  std::vector<std::uint16_t> codes(values.rows());
  double sum = 0.0;
  for (std::size_t j = 0; j < values.cols(); ++j) {
    for (std::size_t i = 0; i < values.rows(); ++i) column[i] = values(i, j);
    rounding.round(j, 0, column, codes.data(), decoded.data());
    for (std::size_t i = 0; i < values.rows(); ++i) {
      const double error = static_cast<double>(column[i]) - static_cast<double>(decoded[i]);
      sum += error * error;
    }
  }
  return sum / static_cast<double>(values.size());
}

}  // namespace nibble::quant
