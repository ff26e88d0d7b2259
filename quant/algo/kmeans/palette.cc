#include "quant/algo/kmeans/palette.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.h"
#include "quant/algo/kmeans/grains.h"
#include "quant/algo/kmeans/segmentation.h"
#include "quant/algo/kmeans/value_bins.h"
#include "quant/algo/rounding/finite.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kSortAtMost = std::size_t{1} << 16;  // values; more are binned first
constexpr std::size_t kSample = 4096;                      // values that say how wide bins are to be, at least

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

void require_valid(const PaletteOptions& options, std::size_t values) {
  NIBBLE_REQUIRE(options.centroids >= 1 && options.centroids <= 256, InvalidArgument,
                 "fit_palette: expected 1 to 256 centroids, got {}", options.centroids);
  NIBBLE_REQUIRE(options.gap >= 0.0 && options.gap < 1.0, InvalidArgument, "fit_palette: gap must be in [0, 1), got {}",
                 options.gap);
  NIBBLE_REQUIRE(values > 0, InvalidArgument, "fit_palette: there are no values");
}

/// Checks values and weights, of which those before `first` were checked.
WeightCheck require_valid(std::span<const float> x, std::span<const float> w, std::size_t first = 0) {
  NIBBLE_REQUIRE(w.empty() || w.size() == x.size(), InvalidArgument, "fit_palette: {} values but {} weights", x.size(),
                 w.size());
  if (const auto bad = first_not_finite(x))
    throw InvalidArgument(fmt::format("fit_palette: value {} is {}; values must be finite", first + *bad, x[*bad]));
  const WeightCheck check = check_weights(w);
  if (check.valid) return check;
  const auto bad =
      std::find_if(w.begin(), w.end(), [](float weight) { return !(std::isfinite(weight) && weight >= 0.0f); });
  throw InvalidArgument(fmt::format("fit_palette: weight {} is {}; weights must be finite and not negative",
                                    first + static_cast<std::size_t>(bad - w.begin()), *bad));
}

/// Values that are held.
class HeldValues final : public WeightedValues {
 public:
  HeldValues(std::span<const float> x, std::span<const float> w) : x_(x), w_(w) {}
  std::size_t size() const override { return x_.size(); }
  void walk(const Visit& visit) const override { visit(x_, w_); }

 private:
  std::span<const float> x_, w_;
};

/// All of them, their weights taken for ones; or those of weight 0 alone.
class Unweighted final : public WeightedValues {
 public:
  enum class Which : std::uint8_t { kAll, kOfWeightZero };
  Unweighted(const WeightedValues& values, Which which) : values_(values), which_(which) {
    if (which == Which::kAll) {
      size_ = values.size();
    } else {
      values.walk([&](std::span<const float>, std::span<const float> w) {
        size_ += static_cast<std::size_t>(std::count(w.begin(), w.end(), 0.0f));
      });
    }
  }
  std::size_t size() const override { return size_; }
  void walk(const Visit& visit) const override {
    std::vector<float> chosen;
    values_.walk([&](std::span<const float> x, std::span<const float> w) {
      if (which_ == Which::kAll) return visit(x, {});
      chosen.clear();
      for (std::size_t i = 0; i < x.size(); ++i)
        if (w[i] == 0.0f) chosen.push_back(x[i]);
      visit(chosen, {});
    });
  }

 private:
  const WeightedValues& values_;
  Which which_;
  std::size_t size_ = 0;
};

struct Survey {
  WeightCheck weights{.valid = true, .some_zero = false, .some_positive = false};
  ValueSummary values;
};

/// One walk: checks everything.
Survey survey(const WeightedValues& values) {
  Survey found;
  const std::size_t step = std::max<std::size_t>(1, values.size() / kSample);
  std::size_t first = 0;
  values.walk([&](std::span<const float> x, std::span<const float> w) {
    const WeightCheck check = require_valid(x, w, first);
    found.weights.some_zero |= check.some_zero;
    found.weights.some_positive |= check.some_positive;
    if (const auto range = finite_range(x)) {
      found.values.low = first == 0 ? range->low : std::min(found.values.low, range->low);
      found.values.high = first == 0 ? range->high : std::max(found.values.high, range->high);
    }
    for (std::size_t i = (step - first % step) % step; i < x.size(); i += step) found.values.sample.push_back(x[i]);
    first += x.size();
  });
  return found;
}

}  // namespace

struct PaletteFitter::Buffers {
  Grains grains;
  ValueBins bins;
  Segmenter segmenter;
  LargeVector<std::uint64_t> pairs, scratch;
  LargeVector<std::uint32_t> keys, key_scratch;  // of values without weights
  double origin = 0.0;

  Segmentation segment(std::span<const float> x, std::span<const float> w, const PaletteOptions& options);
  Segmentation segment(const WeightedValues& values, const ValueSummary& summary, const PaletteOptions& options);
  /// The palette of what was segmented, its cost and bound still to be told.
  Palette palette_of(const Segmentation& segments) const;

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
  std::transform(x.begin(), x.end(), keys.begin(), [](float value) { return sort_key(value); });
  sort_keys(keys, key_scratch);
  origin = origin_of(value_of_key(keys.front()), value_of_key(keys.back()));
  GrainWriter writer(grains, keys.size());
  const double second_moment = add_sorted_keys(keys, origin, writer);
  writer.finish(static_cast<double>(value_of_key(keys.back())) - origin, second_moment);
}

Segmentation PaletteFitter::Buffers::segment_grains(const PaletteOptions& options) {
  const std::size_t m = grains.size(), k = options.centroids;
  const bool exact = std::all_of(grains.exact.begin(), grains.exact.end(), [](std::uint8_t e) { return e != 0; });
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
  sort(x, w);
  return segment_grains(options);
}

Segmentation PaletteFitter::Buffers::segment(const WeightedValues& values, const ValueSummary& summary,
                                             const PaletteOptions& options) {
  bins.fill(values, summary);
  origin = bins.origin();
  while (true) {
    bins.write(grains);
    Segmentation result = segment_grains(options);
    if (result.open.empty() || !bins.open(result.open)) return result;
  }
}

Palette PaletteFitter::Buffers::palette_of(const Segmentation& segments) const {
  const std::size_t clusters = segments.cuts.size() + 1;
  Palette palette;
  for (std::size_t q = 0; q < clusters; ++q) {
    const std::size_t begin = q == 0 ? 0 : segments.cuts[q - 1];
    const std::size_t end = q + 1 == clusters ? grains.size() : segments.cuts[q];
    const double weight = grains.weight.between(begin, end);
    if (end == begin + 1 && grains.exact[begin] != 0) {
      palette.centroids.push_back(static_cast<float>(origin + grains.x[begin]));
    } else if (weight > 0.0) {
      const double mean = grains.moment.between(begin, end) / weight;
      palette.centroids.push_back(static_cast<float>(origin + mean));
    }
  }
  palette.lower_bound = grains.second_moment - segments.gain_bound;
  return palette;
}

PaletteFitter::PaletteFitter() : buffers_(std::make_unique<Buffers>()) {}
PaletteFitter::~PaletteFitter() = default;
PaletteFitter::PaletteFitter(PaletteFitter&&) noexcept = default;
PaletteFitter& PaletteFitter::operator=(PaletteFitter&&) noexcept = default;

Palette PaletteFitter::fit(std::span<const float> x, std::span<const float> w, const PaletteOptions& options) {
  require_valid(options, x.size());
  if (x.size() > kSortAtMost) return fit(HeldValues(x, w), options);
  const WeightCheck weights = require_valid(x, w);
  if (!weights.some_positive) w = {};
  const Segmentation segments = buffers_->segment(x, w, options);
  const bool some_left = segments.cuts.size() + 1 < options.centroids && weights.some_zero && weights.some_positive;
  return finished(buffers_->palette_of(segments), HeldValues(x, w), some_left, options);
}

Palette PaletteFitter::fit(const WeightedValues& values, const PaletteOptions& options) {
  require_valid(options, values.size());
  if (values.size() <= kSortAtMost) {
    std::vector<float> x, w;
    values.walk([&](std::span<const float> some, std::span<const float> weights) {
      x.insert(x.end(), some.begin(), some.end());
      w.insert(w.end(), weights.begin(), weights.end());
    });
    return fit(x, w, options);
  }
  const Survey found = survey(values);
  if (!found.weights.some_positive && found.weights.some_zero)
    return fit(Unweighted(values, Unweighted::Which::kAll), options);
  const Segmentation segments = buffers_->segment(values, found.values, options);
  const bool some_left = segments.cuts.size() + 1 < options.centroids && found.weights.some_zero;
  return finished(buffers_->palette_of(segments), values, some_left, options);
}

Palette PaletteFitter::finished(Palette palette, const WeightedValues& values, bool some_left,
                                const PaletteOptions& options) {
  if (some_left) {
    const std::size_t free = options.centroids - palette.centroids.size();
    const Palette spare =
        fit(Unweighted(values, Unweighted::Which::kOfWeightZero), {.centroids = free, .gap = options.gap});
    palette.centroids.insert(palette.centroids.end(), spare.centroids.begin(), spare.centroids.end());
  }
  std::sort(palette.centroids.begin(), palette.centroids.end());
  palette.centroids.resize(options.centroids, palette.centroids.back());
  palette.cost = palette_cost(values, palette.centroids);
  palette.lower_bound = std::clamp(palette.lower_bound, 0.0, palette.cost);
  return palette;
}

Palette fit_palette(std::span<const float> x, std::span<const float> w, const PaletteOptions& options) {
  return PaletteFitter().fit(x, w, options);
}

Palette fit_palette(const WeightedValues& values, const PaletteOptions& options) {
  return PaletteFitter().fit(values, options);
}

}  // namespace nibble::quant
