#include "calib/collect/token_metric.h"

#include <cmath>

#include "calib/stats/derived.h"
#include "core/error.h"
#include "core/inverse_factor.h"

namespace nibble::calib {
namespace {

double trace_of(const Matrix<double>& a) {
  double trace = 0.0;
  for (std::size_t i = 0; i < a.rows(); ++i) trace += a(i, i);
  return trace;
}

}  // namespace

Matrix<float> whitening(const Matrix<double>& moment) {
  const std::size_t n = moment.rows();
  const double trace = trace_of(moment), unit = static_cast<double>(n) / trace;
  Matrix<float> inverse(n, n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      inverse(i, j) = static_cast<float>(unit * moment(i, j) + (i == j ? kGuideDamping : 0.0));
  NIBBLE_REQUIRE(trace > 0.0 && invert_cholesky_factor(inverse), NumericalError,
                 "calibration: a second moment of {} channels cannot be factored", n);
  // tr(M⁻¹ S) without S: M⁻¹ (M - damping I) has the trace n - damping |L⁻¹|².
  double squares = 0.0;
  for (const float value : inverse.values()) squares += static_cast<double>(value) * static_cast<double>(value);
  const double whitened = (static_cast<double>(n) - kGuideDamping * squares) / unit;
  const auto scale = static_cast<float>(std::sqrt(trace / whitened));
  for (float& value : inverse.values()) value *= scale;
  return inverse;
}

TokenMetric token_metric(const LayerStats& first) {
  TokenMetric metric;
  if (first.tokens == 0 || first.sum_dydyt.size() == 0) return metric;
  if (const Matrix<double> gradients = output_hessian(first); trace_of(gradients) > 0.0) {
    metric.gradients = whitening(gradients);
  }
  const Matrix<double> inputs = hessian(first, HessianKind::kCentred);
  const double size = trace_of(inputs);
  if (!(size > 0.0)) return metric;
  metric.inputs = whitening(inputs);
  metric.mean = mean_input(first);
  const auto unit = static_cast<float>(std::sqrt(static_cast<double>(first.in) / size));  // E|W (x - mean)|² = in
  for (float& value : metric.inputs.values()) value *= unit;
  return metric;
}

}  // namespace nibble::calib
