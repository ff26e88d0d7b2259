#include "calib/stats/derived.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "core/error.h"

namespace nibble::calib {
namespace {

void require(const LayerStats& layer, const StatisticSet& needed) {
  NIBBLE_REQUIRE(layer.holds().includes(needed), InvalidArgument,
                 "layer '{}': needs the statistics {}, but the calibration holds {}; collect them with --collect",
                 layer.module, to_text(needed), to_text(layer.holds()));
  NIBBLE_REQUIRE(layer.tokens > 0 && layer.samples > 0, InvalidArgument,
                 "layer '{}': the calibration has seen no tokens", layer.module);
}

std::vector<double> divided(std::span<const double> sums, double count) {
  std::vector<double> means(sums.begin(), sums.end());
  for (double& value : means) value /= count;
  return means;
}

}  // namespace

std::vector<double> mean_input(const LayerStats& layer) {
  require(layer, {.activations = true});
  return divided(layer.sum_x, static_cast<double>(layer.tokens));
}

std::vector<double> second_moment(const LayerStats& layer) {
  require(layer, {.activations = true});
  return divided(layer.sum_x2, static_cast<double>(layer.tokens));
}

std::vector<double> mean_magnitude(const LayerStats& layer) {
  require(layer, {.activations = true});
  return divided(layer.sum_abs_x, static_cast<double>(layer.tokens));
}

Matrix<double> mean_fisher(const LayerStats& layer) {
  require(layer, {.fisher = true});
  Matrix<double> mean(layer.out, layer.in);
  const auto samples = static_cast<double>(layer.samples);
  for (std::size_t i = 0; i < mean.size(); ++i) mean.data()[i] = static_cast<double>(layer.fisher.data()[i]) / samples;
  return mean;
}

std::vector<double> correction_mean(const LayerStats& layer, HessianKind kind) {
  if (!is_guided(kind)) return mean_input(layer);
  require(layer, {.guided_hessian = true});
  if (layer.sum_s == 0.0) return std::vector<double>(layer.in, 0.0);
  return divided(layer.sum_s_x, layer.sum_s);
}

Matrix<double> hessian(const LayerStats& layer, HessianKind kind) {
  const bool guided = is_guided(kind), centred = is_centred(kind);
  require(layer, {.activations = centred && !guided, .hessian = !guided, .guided_hessian = guided});
  const Matrix<float>& sums = guided ? layer.sum_s_xxt : layer.sum_xxt;
  const auto tokens = static_cast<double>(layer.tokens);
  const double mass = guided ? layer.sum_s : tokens;  // the weight of all tokens together
  const std::vector<double> mean = centred ? correction_mean(layer, kind) : std::vector<double>(layer.in, 0.0);

  Matrix<double> h(layer.in, layer.in);
  std::vector<char> silent(layer.in);
  constexpr double kConstantInput = 0x1p-20;
  for (std::size_t i = 0; i < layer.in; ++i) {
    const auto plain = static_cast<double>(sums(i, i));
    const double centred_diagonal = plain - mass * mean[i] * mean[i];
    silent[i] = !(centred_diagonal > (centred ? kConstantInput * plain : 0.0));
  }
  for (std::size_t i = 0; i < layer.in; ++i) {
    if (silent[i]) continue;
    for (std::size_t j = 0; j < layer.in; ++j) {
      if (silent[j]) continue;
      h(i, j) = (static_cast<double>(sums(i, j)) - mass * (mean[i] * mean[j])) / tokens;
    }
  }
  return h;
}

Matrix<double> output_hessian(const LayerStats& layer) {
  require(layer, {.output_hessian = true});
  const Matrix<float>& sums = layer.sum_dydyt;
  double trace = 0.0;
  for (std::size_t i = 0; i < layer.out; ++i) trace += static_cast<double>(sums(i, i));
  Matrix<double> h(layer.out, layer.out);
  if (!(trace > 0.0)) return h;
  const double factor = static_cast<double>(layer.out) / trace;
  for (std::size_t i = 0; i < layer.out; ++i)
    for (std::size_t j = 0; j < layer.out; ++j)
      if (sums(i, i) > 0.0f && sums(j, j) > 0.0f) h(i, j) = factor * static_cast<double>(sums(i, j));
  return h;
}

double effective_tokens(double sum_s, std::optional<double> sum_s2) {
  return sum_s2.value_or(0.0) > 0.0 ? sum_s * sum_s / *sum_s2 : std::numeric_limits<double>::quiet_NaN();
}

std::vector<std::size_t> dead_channels(const LayerStats& layer) {
  require(layer, {.activations = true});
  std::vector<std::size_t> dead;
  for (std::size_t i = 0; i < layer.in; ++i) {
    if (layer.sum_x2[i] == 0.0) dead.push_back(i);
  }
  return dead;
}

double outlier_ratio(const LayerStats& layer) {
  require(layer, {.activations = true});
  double largest = 0.0;
  for (std::size_t i = 0; i < layer.in; ++i) {
    largest = std::max(
        {largest, std::abs(static_cast<double>(layer.min_x[i])), std::abs(static_cast<double>(layer.max_x[i]))});
  }
  const double total = std::accumulate(layer.sum_x2.begin(), layer.sum_x2.end(), 0.0);
  const double mean_square = total / (static_cast<double>(layer.tokens) * static_cast<double>(layer.in));
  return mean_square > 0.0 ? largest / std::sqrt(mean_square) : 0.0;
}

}  // namespace nibble::calib
