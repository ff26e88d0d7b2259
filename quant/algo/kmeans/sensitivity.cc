#include "quant/algo/kmeans/sensitivity.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace nibble::quant {

Matrix<float> kmeans_weights(MatrixView<const double> sensitivities) {
  double largest = 0.0;
  for (std::size_t i = 0; i < sensitivities.rows(); ++i)
    for (std::size_t j = 0; j < sensitivities.cols(); ++j) {
      const double value = sensitivities(i, j);
      NIBBLE_REQUIRE(value >= 0.0 && std::isfinite(value), NumericalError,
                     "sensitivities: expected finite values, not negative, got {} at row {}, column {}", value, i, j);
      largest = std::max(largest, value);
    }
  Matrix<float> weights(sensitivities.rows(), sensitivities.cols());
  for (std::size_t i = 0; i < weights.rows(); ++i)
    for (std::size_t j = 0; j < weights.cols(); ++j)
      weights(i, j) =
          largest > 0.0 ? static_cast<float>(std::max(sensitivities(i, j) / largest, kSensitivityFloor)) : 1.0f;
  return weights;
}

}  // namespace nibble::quant
