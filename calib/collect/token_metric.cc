#include "calib/collect/token_metric.h"

#include <algorithm>
#include <cmath>

#include "calib/stats/derived.h"
#include "core/error.h"
#include "core/matrix/inverse_factor.h"

namespace nibble::calib {
namespace {

constexpr double kLargestDamping = 1e4;

double trace_of(const Matrix<double>& a) {
  double trace = 0.0;
  for (std::size_t i = 0; i < a.rows(); ++i) trace += a(i, i);
  return trace;
}

// The inverse of M's Cholesky factor, and tr(M⁻¹ S) / unit, 0 where M is not positive definite as far as floats can
// tell.
double factor(const Matrix<double>& moment, double unit, double damping, Matrix<float>& inverse) {
  const std::size_t n = moment.rows();
  inverse = Matrix<float>(n, n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      inverse(i, j) = static_cast<float>(unit * moment(i, j) + (i == j ? damping : 0.0));
  if (!invert_cholesky_factor(inverse)) return 0.0;
  // M⁻¹ (M - damping I) has the trace n - damping |L⁻¹|².
  double squares = 0.0;
  for (const float value : inverse.values()) squares += static_cast<double>(value) * static_cast<double>(value);
  return std::max(0.0, static_cast<double>(n) - damping * squares);
}

}  // namespace

StatisticSet metric_statistics(const StatisticSet& collected) {
  return {.activations = collected.output_hessian,
          .hessian = collected.output_hessian,
          .output_hessian = collected.guided_hessian};
}

double metric_damping(std::size_t n, std::uint64_t tokens) {
  return 0.1 + static_cast<double>(n) / static_cast<double>(tokens);
}

Matrix<float> whitening(const Matrix<double>& moment, double damping) {
  const double trace = trace_of(moment), unit = static_cast<double>(moment.rows()) / trace;
  const double most = std::max(damping, kLargestDamping);  // few tokens of a wide expert begin beyond it
  Matrix<float> inverse;
  double whitened = 0.0;
  for (; trace > 0.0 && damping <= most && whitened == 0.0; damping *= 10.0)
    whitened = factor(moment, unit, damping, inverse);
  NIBBLE_REQUIRE(whitened > 0.0, NumericalError, "calibration: a second moment of {} channels cannot be factored",
                 moment.rows());
  const auto scale = static_cast<float>(std::sqrt(trace * unit / whitened));
  for (float& value : inverse.values()) value *= scale;
  return inverse;
}

TokenMetric token_metric(const LayerStats& first) {
  TokenMetric metric;
  if (first.tokens == 0) return metric;
  if (first.sum_dydyt.size() != 0) {
    if (const Matrix<double> gradients = output_hessian(first); trace_of(gradients) > 0.0)
      metric.gradients = whitening(gradients, metric_damping(first.out, first.tokens));
  }
  if (first.sum_xxt.size() == 0) return metric;
  const Matrix<double> inputs = hessian(first, HessianKind::kCentred);
  const double size = trace_of(inputs);
  if (!(size > 0.0)) return metric;
  metric.inputs = whitening(inputs, metric_damping(first.in, first.tokens));
  metric.mean = mean_input(first);
  const auto unit = static_cast<float>(std::sqrt(static_cast<double>(first.in) / size));  // E|W (x - mean)|² = in
  for (float& value : metric.inputs.values()) value *= unit;
  return metric;
}

}  // namespace nibble::calib
