// Weighted one-dimensional k-means, 16 centroids, on one core: weights per second of PaletteFitter, and its cost beside
// Lloyd's from a k-means++ start. Rows are what per-channel palettes fit; tensors what whole-tensor palettes do.
// Results: docs/results/kmeans.md.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "core/random.h"
#include "quant/algo/kmeans/palette.h"
#include "tests/bench/measure.h"

namespace {

using namespace nibble;
using namespace nibble::quant;

/// Weights like those of a trained layer and sensitivities over several orders of magnitude.
struct Sample {
  std::vector<float> x, w;
};

Sample draw(std::size_t n, DType stored_as, bool outliers, std::size_t seed) {
  Random random(n + seed);
  Sample sample;
  for (std::size_t i = 0; i < n; ++i) {
    auto x = static_cast<float>(0.02 * random.normal());
    if (outliers && random.below(1000) == 0) x *= 50.0f;
    if (stored_as == DType::kF16) x = round_to_f16(x);
    if (stored_as == DType::kBF16) x = bf16_to_f32(f32_to_bf16(x));
    sample.x.push_back(x);
    sample.w.push_back(static_cast<float>(std::exp(2.0 * random.normal())));
  }
  return sample;
}

/// k-means++ (on up to 10000 of the values), then Lloyd's iteration until it stands still, 100 steps at most.
double lloyd_cost(const Sample& sample, std::size_t k) {
  Random random(1);
  const std::size_t n = sample.x.size(), step = std::max<std::size_t>(1, n / 10000);
  std::vector<float> centroids{sample.x[0]};
  while (centroids.size() < k) {
    std::vector<double> sums;
    double total = 0.0;
    for (std::size_t i = 0; i < n; i += step) {
      double nearest = HUGE_VAL;
      for (const float c : centroids)
        nearest = std::min(nearest, std::abs(static_cast<double>(sample.x[i]) - static_cast<double>(c)));
      sums.push_back(total += static_cast<double>(sample.w[i]) * nearest * nearest);
    }
    const auto chosen = std::lower_bound(sums.begin(), sums.end() - 1, random.uniform() * total) - sums.begin();
    centroids.push_back(sample.x[static_cast<std::size_t>(chosen) * step]);
  }
  std::vector<std::uint8_t> codes(n);
  for (int iteration = 0; iteration < 100; ++iteration) {
    std::sort(centroids.begin(), centroids.end());
    assign_codes(sample.x, centroids, codes);
    std::vector<double> weights(k), moments(k);
    for (std::size_t i = 0; i < n; ++i) {
      weights[codes[i]] += static_cast<double>(sample.w[i]);
      moments[codes[i]] += static_cast<double>(sample.w[i]) * static_cast<double>(sample.x[i]);
    }
    const std::vector<float> before = centroids;
    for (std::size_t c = 0; c < k; ++c)
      if (weights[c] > 0.0) centroids[c] = static_cast<float>(moments[c] / weights[c]);
    if (centroids == before) break;
  }
  return palette_cost(sample.x, sample.w, centroids);
}

/// Of rows 32, which differ in how many clusterings are near the best, and with that in time.
void report(const std::string& name, std::size_t n, DType stored_as, bool outliers, const PaletteOptions& options) {
  std::vector<Sample> samples;
  for (std::size_t seed = 0; seed < (n > 100000 ? 1u : 32u); ++seed)
    samples.push_back(draw(n, stored_as, outliers, seed));
  PaletteFitter fitter;
  double gap = 0.0, cost = 0.0, by_lloyd = 0.0;
  for (const Sample& sample : samples) {
    const Palette palette = fitter.fit(sample.x, sample.w, options);
    gap = std::max(gap, palette.gap());
    cost += palette.cost;
    by_lloyd += lloyd_cost(sample, options.centroids);
  }
  const auto timing = bench::measure(9, [&] {
    for (const Sample& sample : samples) (void)fitter.fit(sample.x, sample.w, options);
  });
  const auto values = static_cast<double>(n * samples.size());
  const auto rate = [&](double seconds) { return values / seconds / 1e6; };
  fmt::print("{:32} {:4} {:8.0e} {:10.3f} {:8.2f} {:8.2f} {:8.2f} {:9.1e} {:9.5f}\n", name, options.centroids,
             options.gap, timing.median_seconds * 1e3 / static_cast<double>(samples.size()),
             rate(timing.median_seconds), rate(timing.max_seconds), rate(timing.min_seconds), gap, by_lloyd / cost);
}

}  // namespace

int main() {
  set_thread_count(1);  // figures are per core
  fmt::print("kernels: {}\n", isa_name(active_isa()));
  fmt::print("{:32} {:>4} {:>8} {:>10} {:>8} {:>8} {:>8} {:>9} {:>9}\n", "case", "k", "asked", "ms", "Mw/s", "worst",
             "best", "gap", "Lloyd/our");
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
    for (const std::size_t k : {4u, 8u, 16u, 64u, 256u})
      report(fmt::format("row 4096 {}", dtype_name(dtype)), 4096, dtype, false, {.centroids = k});
  }
  report("row 4096 F32, outliers", 4096, DType::kF32, true, {});
  report("row 14336 F32", 14336, DType::kF32, false, {});
  for (const double gap : {1e-6, 0.0}) {
    report("tensor 768x3072 F16", 768 * 3072, DType::kF16, false, {.gap = gap});
    report("tensor 768x3072 F32", 768 * 3072, DType::kF32, false, {.gap = gap});
    report("tensor 768x3072 F32, outliers", 768 * 3072, DType::kF32, true, {.gap = gap});
    report("tensor 4096x4096 F32", 4096 * 4096, DType::kF32, false, {.gap = gap});
  }
}
