#include "quant/algo/palette.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "quant/algo/grains.h"
#include "quant/algo/segmentation.h"

namespace nibble::quant {
namespace {

void require_finite(std::span<const float> x) {
  for (std::size_t i = 0; i < x.size(); ++i)
    NIBBLE_REQUIRE(std::isfinite(x[i]), InvalidArgument, "fit_palette: value {} is {}; values must be finite", i, x[i]);
}

void require_weights(std::span<const float> w) {
  for (std::size_t i = 0; i < w.size(); ++i)
    NIBBLE_REQUIRE(std::isfinite(w[i]) && w[i] >= 0.0f, InvalidArgument,
                   "fit_palette: weight {} is {}; weights must be finite and not negative", i, w[i]);
}

}  // namespace

struct PaletteFitter::Buffers {
  Grains grains;
  Segmenter segmenter;
  std::vector<std::uint64_t> pairs, scratch;
};

PaletteFitter::PaletteFitter() : buffers_(std::make_unique<Buffers>()) {}
PaletteFitter::~PaletteFitter() = default;
PaletteFitter::PaletteFitter(PaletteFitter&&) noexcept = default;
PaletteFitter& PaletteFitter::operator=(PaletteFitter&&) noexcept = default;

Palette PaletteFitter::fit(std::span<const float> x, std::span<const float> w, const PaletteOptions& options) {
  const std::size_t k = options.centroids;
  NIBBLE_REQUIRE(k >= 1 && k <= 256, InvalidArgument, "fit_palette: expected 1 to 256 centroids, got {}", k);
  NIBBLE_REQUIRE(options.gap >= 0.0 && options.gap < 1.0, InvalidArgument, "fit_palette: gap must be in [0, 1), got {}",
                 options.gap);
  NIBBLE_REQUIRE(!x.empty(), InvalidArgument, "fit_palette: there are no values");
  NIBBLE_REQUIRE(w.empty() || w.size() == x.size(), InvalidArgument, "fit_palette: {} values but {} weights", x.size(),
                 w.size());
  require_finite(x);
  require_weights(w);

  auto& pairs = buffers_->pairs;
  pairs.clear();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float weight = w.empty() ? 1.0f : w[i];
    if (weight > 0.0f) pairs.push_back(pack_weighted(x[i], weight));
  }
  if (pairs.empty()) return fit(x, {}, options);
  sort_weighted(pairs, buffers_->scratch);
  const double origin = static_cast<double>(unpack_value(pairs[pairs.size() / 2]));
  Grains& grains = buffers_->grains;
  GrainWriter writer(grains, pairs.size());
  add_sorted_values(pairs, origin, writer);
  writer.finish(static_cast<double>(unpack_value(pairs.back())) - origin);

  Palette palette;
  if (grains.size() <= k) {
    for (std::size_t g = 0; g < grains.size(); ++g)
      palette.centroids.push_back(static_cast<float>(grains.x[g] + origin));
    palette.centroids.resize(k, palette.centroids.back());
    return palette;
  }
  Segmentation segments{};
  if (k > 1) {
    segments = buffers_->segmenter.solve(grains, k, options.gap);
  } else {
    segments.gain = segments.gain_bound = grains.moment.back() * grains.moment.back() / grains.weight.back();
  }
  for (std::size_t q = 0; q < k; ++q) {
    const std::size_t begin = q == 0 ? 0 : segments.cuts[q - 1], end = q + 1 == k ? grains.size() : segments.cuts[q];
    const double weight = grains.weight[end] - grains.weight[begin];
    if (weight > 0.0)
      palette.centroids.push_back(static_cast<float>(origin + (grains.moment[end] - grains.moment[begin]) / weight));
  }
  palette.centroids.resize(k, palette.centroids.back());
  palette.cost = palette_cost(x, w, palette.centroids);
  palette.lower_bound = std::clamp(grains.second_moment - segments.gain_bound, 0.0, palette.cost);
  return palette;
}

Palette fit_palette(std::span<const float> x, std::span<const float> w, const PaletteOptions& options) {
  return PaletteFitter().fit(x, w, options);
}

}  // namespace nibble::quant
