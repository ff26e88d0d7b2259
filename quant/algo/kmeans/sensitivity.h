#pragma once

#include "core/matrix/matrix_view.h"

namespace nibble::quant {

/// The smallest weight that k-means is given, as a share of the largest: weights of 0, from inputs that calibration
/// never saw, would leave the values under them to chance.
constexpr double kSensitivityFloor = 1e-12;

/// Sensitivities (diagonal Fisher, second moments, …) as weights for k-means: divided by the largest, and at least
/// kSensitivityFloor; all ones if all are 0. Neither changes which palette is best (but for the floor).
/// Throws NumericalError naming row and column: negative, NaN or infinite.
[[nodiscard]] Matrix<float> kmeans_weights(MatrixView<const double> sensitivities);

}  // namespace nibble::quant
