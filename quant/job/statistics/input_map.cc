#include "quant/job/statistics/input_map.h"

#include <algorithm>

#include "core/matrix/gemm.h"

namespace nibble::quant {
namespace {

bool is_zero(const Matrix<float>& values) {
  return std::all_of(values.values().begin(), values.values().end(), [](float value) { return value == 0.0f; });
}

// Adds weight · mean meanᵀ.
void add_mean(double weight, const std::vector<double>& mean, Matrix<float>& h) {
  for (std::size_t i = 0; i < mean.size(); ++i)
    for (std::size_t j = 0; j < mean.size(); ++j)
      h(i, j) = static_cast<float>(static_cast<double>(h(i, j)) + weight * (mean[i] * mean[j]));
}

void carry_centred(const InputMap& map, double weight, Matrix<float>& h) {
  const std::size_t n = h.rows();
  Matrix<float> changed(n, n);  // change · H, whose transpose is H · changeᵀ
  parallel_gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, map.change.view(), h.view(), 0.0f, changed.view());
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) h(i, j) -= changed(i, j) + changed(j, i);
  parallel_gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, changed.view(), map.change.view(), 1.0f, h.view());
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      const double both = (static_cast<double>(h(i, j)) + static_cast<double>(h(j, i))) / 2.0;
      const bool varies = map.constant[i] == 0 && map.constant[j] == 0;
      h(i, j) = h(j, i) = varies ? static_cast<float>(both + weight * static_cast<double>(map.rest(i, j))) : 0.0f;
    }
}

std::vector<double> carried_mean(const InputMap& map, const std::vector<double>& mean) {
  std::vector<double> carried = map.now;
  for (std::size_t i = 0; i < carried.size(); ++i) {
    if (map.constant[i] != 0) continue;
    carried[i] += mean[i] - map.then[i];
    for (std::size_t j = 0; j < mean.size(); ++j)
      carried[i] -= static_cast<double>(map.change(i, j)) * (mean[j] - map.then[j]);
  }
  return carried;
}

}  // namespace

void carry(const InputMap& map, GuidedProducts& guided) {
  if (guided.weight == 0.0 || (map.then == map.now && is_zero(map.change) && is_zero(map.rest))) return;
  if (!guided.about_mean) add_mean(-guided.weight, guided.mean, guided.products);
  carry_centred(map, guided.weight, guided.products);
  guided.mean = carried_mean(map, guided.mean);
  if (!guided.about_mean) add_mean(guided.weight, guided.mean, guided.products);
}

}  // namespace nibble::quant
