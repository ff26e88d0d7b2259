#include "quant/algo/kmeans/palette.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.h"
#include "quant/algo/kmeans/grains.h"
#include "quant/algo/kmeans/priced_segmentation.h"
#include "quant/algo/kmeans/segmentation.h"
#include "quant/algo/kmeans/value_bins.h"
#include "quant/algo/rounding/finite.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kSortAtMost = std::size_t{1} << 16;  // values; more are binned first
constexpr std::size_t kMany = 64;                          // centroids from which a PricedSegmenter is no slower

struct WeightCheck {
  bool valid = true, some_zero = false, some_positive = false;
};

WeightCheck check_weights(std::span<const float> weights) {
  std::uint32_t bad = 0, zero = 0, positive = 0;
  for (const float weight : weights) {
    const auto bits = std::bit_cast<std::uint32_t>(weight + 0.0f);  // -0 becomes 0; negative numbers have the sign bit
    bad |= bits >= 0x7F800000u ? 1u : 0u;
    zero |= bits == 0 ? 1u : 0u;
    positive |= bits != 0 ? 1u : 0u;
  }
  return {bad == 0, zero != 0, positive != 0};
}

void require_valid(std::span<const float> x, std::span<const float> w, const PaletteOptions& options) {
  NIBBLE_REQUIRE(options.centroids >= 1 && options.centroids <= 256, InvalidArgument,
                 "fit_palette: expected 1 to 256 centroids, got {}", options.centroids);
  NIBBLE_REQUIRE(options.gap >= 0.0 && options.gap < 1.0, InvalidArgument, "fit_palette: gap must be in [0, 1), got {}",
                 options.gap);
  NIBBLE_REQUIRE(!x.empty(), InvalidArgument, "fit_palette: there are no values");
  NIBBLE_REQUIRE(w.empty() || w.size() == x.size(), InvalidArgument, "fit_palette: {} values but {} weights", x.size(),
                 w.size());
  if (const auto bad = first_not_finite(x))
    throw InvalidArgument(fmt::format("fit_palette: value {} is {}; values must be finite", *bad, x[*bad]));
}

/// std::isfinite and >= 0, as check_weights() found it violated.
[[noreturn]] void throw_bad_weight(std::span<const float> w) {
  const auto bad =
      std::find_if(w.begin(), w.end(), [](float weight) { return !(std::isfinite(weight) && weight >= 0.0f); });
  throw InvalidArgument(
      fmt::format("fit_palette: weight {} is {}; weights must be finite and not negative", bad - w.begin(), *bad));
}

}  // namespace

struct PaletteFitter::Buffers {
  Grains grains;
  ValueBins bins;
  Segmenter segmenter;
  PricedSegmenter priced_segmenter;
  std::vector<std::uint64_t> pairs, scratch;
  std::vector<std::uint32_t> keys, key_scratch;  // of values without weights
  double origin = 0.0;

  Segmentation segment(std::span<const float> x, std::span<const float> w, const PaletteOptions& options);

 private:
  void sort(std::span<const float> x, std::span<const float> w);
  void sort(std::span<const float> x);
  Segmentation segment_grains(const PaletteOptions& options);
};

/// All values, sorted: for up to kSortAtMost.
void PaletteFitter::Buffers::sort(std::span<const float> x, std::span<const float> w) {
  if (w.empty()) return sort(x);
  pairs.clear();
  pairs.reserve(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    if (w[i] > 0.0f) pairs.push_back(pack_weighted(x[i], w[i]));
  sort_weighted(pairs, scratch);
  origin = origin_of(unpack_value(pairs.front()), unpack_value(pairs.back()));
  GrainWriter writer(grains, pairs.size());
  const double second_moment = add_sorted_values(pairs, origin, writer);
  writer.finish(static_cast<double>(unpack_value(pairs.back())) - origin, second_moment);
}

void PaletteFitter::Buffers::sort(std::span<const float> x) {
  keys.resize(x.size());
  std::transform(x.begin(), x.end(), keys.begin(), sort_key);
  sort_keys(keys, key_scratch);
  origin = origin_of(value_of_key(keys.front()), value_of_key(keys.back()));
  GrainWriter writer(grains, keys.size());
  const double second_moment = add_sorted_keys(keys, origin, writer);
  writer.finish(static_cast<double>(value_of_key(keys.back())) - origin, second_moment);
}

Segmentation PaletteFitter::Buffers::segment_grains(const PaletteOptions& options) {
  const std::size_t m = grains.size(), k = options.centroids;
  const bool exact = std::all_of(grains.exact.begin(), grains.exact.end(), [](std::uint8_t e) { return e != 0; });
  if (k < m && k >= kMany && exact)
    if (auto priced = priced_segmenter.solve(grains, k)) return *std::move(priced);
  if (k < m && k > 1) return segmenter.solve(grains, k, options.gap);
  Segmentation whole;
  if (k >= m && !exact) {  // a bin holds more than one value: which ones?
    whole.open.assign(m, 1);
  } else if (k >= m) {  // each value for itself
    for (std::size_t g = 1; g < m; ++g) whole.cuts.push_back(g);
    whole.gain = whole.gain_bound = grains.second_moment;
    whole.optimal = true;
  } else {
    const double moment = grains.moment.between(0, m);
    whole.gain = whole.gain_bound = moment * moment / grains.weight.between(0, m);
    whole.optimal = true;
  }
  return whole;
}

Segmentation PaletteFitter::Buffers::segment(std::span<const float> x, std::span<const float> w,
                                             const PaletteOptions& options) {
  if (x.size() <= kSortAtMost) {
    sort(x, w);
    return segment_grains(options);
  }
  bins.fill(x, w);
  origin = bins.origin();
  while (true) {
    bins.write(grains);
    Segmentation result = segment_grains(options);
    if (result.open.empty() || !bins.open(result.open)) return result;
  }
}

PaletteFitter::PaletteFitter() : buffers_(std::make_unique<Buffers>()) {}
PaletteFitter::~PaletteFitter() = default;
PaletteFitter::PaletteFitter(PaletteFitter&&) noexcept = default;
PaletteFitter& PaletteFitter::operator=(PaletteFitter&&) noexcept = default;

Palette PaletteFitter::fit(std::span<const float> x, std::span<const float> w, const PaletteOptions& options) {
  require_valid(x, w, options);
  const WeightCheck weights = check_weights(w);
  if (!weights.valid) throw_bad_weight(w);
  if (!weights.some_positive) w = {};

  const Segmentation segments = buffers_->segment(x, w, options);
  const Grains& grains = buffers_->grains;
  const std::size_t k = options.centroids, clusters = segments.cuts.size() + 1;
  Palette palette;
  for (std::size_t q = 0; q < clusters; ++q) {
    const std::size_t begin = q == 0 ? 0 : segments.cuts[q - 1];
    const std::size_t end = q + 1 == clusters ? grains.size() : segments.cuts[q];
    const double weight = grains.weight.between(begin, end);
    if (end == begin + 1 && grains.exact[begin] != 0) {
      palette.centroids.push_back(static_cast<float>(buffers_->origin + grains.x[begin]));
    } else if (weight > 0.0) {
      const double mean = grains.moment.between(begin, end) / weight;
      palette.centroids.push_back(static_cast<float>(buffers_->origin + mean));
    }
  }
  if (clusters < k && weights.some_zero && weights.some_positive) {
    std::vector<float> rest;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (w[i] == 0.0f) rest.push_back(x[i]);
    const Palette spare = fit(rest, {}, {.centroids = k - clusters, .gap = options.gap});
    palette.centroids.insert(palette.centroids.end(), spare.centroids.begin(), spare.centroids.end());
  }
  std::sort(palette.centroids.begin(), palette.centroids.end());
  palette.centroids.resize(k, palette.centroids.back());
  palette.cost = palette_cost(x, w, palette.centroids);
  palette.lower_bound = std::clamp(grains.second_moment - segments.gain_bound, 0.0, palette.cost);
  return palette;
}

Palette fit_palette(std::span<const float> x, std::span<const float> w, const PaletteOptions& options) {
  return PaletteFitter().fit(x, w, options);
}

}  // namespace nibble::quant
