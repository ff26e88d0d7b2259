#include "calib/collect/gradient_metric.h"

#include <cmath>

#include "core/error.h"
#include "core/inverse_factor.h"
#include "core/thread_pool.h"

namespace nibble::calib {

Matrix<float> whitening(const Matrix<float>& sum_dydyt) {
  const std::size_t out = sum_dydyt.rows();
  double trace = 0.0;
  for (std::size_t i = 0; i < out; ++i) trace += static_cast<double>(sum_dydyt(i, i));
  if (!(trace > 0.0)) return {};
  const double unit = static_cast<double>(out) / trace;
  Matrix<float> inverse(out, out);
  for (std::size_t i = 0; i < out; ++i) {
    for (std::size_t j = 0; j < out; ++j)
      inverse(i, j) = static_cast<float>(unit * static_cast<double>(sum_dydyt(i, j)) + (i == j ? kGuideDamping : 0.0));
  }
  NIBBLE_REQUIRE(invert_cholesky_factor(inverse), NumericalError,
                 "calibration: the output Hessian of {} outputs cannot be factored", out);
  // tr(M⁻¹ S) without S: M⁻¹ (M - damping I) has the trace out - damping · |L⁻¹|².
  double squares = 0.0;
  for (const float value : inverse.values()) squares += static_cast<double>(value) * static_cast<double>(value);
  const double whitened = (static_cast<double>(out) - kGuideDamping * squares) / unit;
  const auto scale = static_cast<float>(std::sqrt(trace / whitened));
  for (float& value : inverse.values()) value *= scale;
  return inverse;
}

}  // namespace nibble::calib
