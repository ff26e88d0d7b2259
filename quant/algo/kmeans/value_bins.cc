#include "quant/algo/kmeans/value_bins.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

namespace nibble::quant {
namespace {

constexpr std::size_t kChunk = 512;
constexpr std::int64_t kEvenBins = std::int64_t{1} << 16;  // on each side of the origin
constexpr unsigned kDropBits = 52 - 10;                    // of a double's fraction: 1024 bins per power of two remain
const std::int64_t kFirstOctave = std::bit_cast<std::int64_t>(static_cast<double>(kEvenBins)) >> kDropBits;

/// The number of a value, in units of the even bins, from the origin outwards; negative values count from -1 down.
std::int64_t number_of(double in_units) {
  const double magnitude = std::abs(in_units);
  const std::int64_t outward = magnitude < static_cast<double>(kEvenBins)
                                   ? static_cast<std::int64_t>(magnitude)
                                   : kEvenBins + ((std::bit_cast<std::int64_t>(magnitude) >> kDropBits) - kFirstOctave);
  return in_units < 0.0 ? -1 - outward : outward;
}

/// The edge of bin `outward` that is nearer to the origin, in units.
double inner_edge(std::int64_t outward) {
  if (outward <= kEvenBins) return static_cast<double>(outward);
  return std::bit_cast<double>((outward - kEvenBins + kFirstOctave) << kDropBits);
}

}  // namespace

void ValueBins::place_bins(const ValueSummary& summary) {
  origin_ = origin_of(summary.low, summary.high);
  const double least = static_cast<double>(summary.low) - origin_,
               largest = static_cast<double>(summary.high) - origin_;
  double deviation = 0.0;
  for (const float value : summary.sample) deviation += std::abs(static_cast<double>(value) - origin_);
  deviation /= static_cast<double>(summary.sample.size());
  // A sample of equal values says nothing about the rest.
  const double reach = deviation > 0.0 ? 4.0 * deviation : std::max({-least, largest, 1e-300});
  int exponent = 0;
  std::frexp(reach, &exponent);
  unit_ = std::ldexp(1.0, exponent) / static_cast<double>(kEvenBins);
  bins_per_unit_ = 1.0 / unit_;
  lowest_ = number_of(least * bins_per_unit_);
  end_ = largest;
  const auto count = static_cast<std::size_t>(number_of(largest * bins_per_unit_) - lowest_ + 1);
  bins_.assign(count, {});
  is_open_.assign(count, 0);
}

std::size_t ValueBins::bin_of(double relative) const {
  return static_cast<std::size_t>(number_of(relative * bins_per_unit_) - lowest_);
}

double ValueBins::lower_edge(std::size_t bin) const {
  const std::int64_t number = lowest_ + static_cast<std::int64_t>(bin);
  return unit_ * (number >= 0 ? inner_edge(number) : -inner_edge(-number));  // bin -1 ends at 0 and begins at -1
}

void ValueBins::fill(const WeightedValues& values, const ValueSummary& summary) {
  values_ = &values;
  place_bins(summary);
  std::array<std::uint32_t, kChunk> bin;
  TwiceSum total;
  double second_moment = 0.0;  // of a chunk, which may go on in the next piece
  std::size_t in_chunk = 0;
  values.walk([&](std::span<const float> x, std::span<const float> w) {
    for (std::size_t begin = 0; begin < x.size();) {
      const std::size_t count = std::min(kChunk - in_chunk, x.size() - begin);
      for (std::size_t i = 0; i < count; ++i)
        bin[i] = static_cast<std::uint32_t>(bin_of(static_cast<double>(x[begin + i]) - origin_));
      for (std::size_t i = 0; i < count; ++i) {
        const double value = static_cast<double>(x[begin + i]) - origin_;
        const double weight = w.empty() ? 1.0 : static_cast<double>(w[begin + i]);
        const double moment = weight * value;
        bins_[bin[i]].weight += weight;
        bins_[bin[i]].moment += moment;
        second_moment += moment * value;
      }
      begin += count;
      in_chunk += count;
      if (in_chunk < kChunk) continue;
      total.add(std::exchange(second_moment, 0.0));
      in_chunk = 0;
    }
  });
  total.add(second_moment);
  second_moment_ = total.value();
}

void ValueBins::write(Grains& grains) {
  grain_bins_.clear();
  GrainWriter writer(grains, 2 * bins_.size() + pairs_.size());
  std::size_t next = 0, previous = 0;
  bool after_closed = false;
  for (std::size_t bin = 0; bin < bins_.size(); ++bin) {
    if (!(bins_[bin].weight > 0.0)) continue;
    if (after_closed && bin != previous + 1) {  // the closed bin before ends at its own edge, not as far as here
      writer.add(lower_edge(previous + 1), 0.0, 0.0, true);
      grain_bins_.push_back(static_cast<std::uint32_t>(previous));
    }
    previous = bin;
    after_closed = is_open_[bin] == 0;
    if (is_open_[bin] == 0) {
      writer.add(lower_edge(bin), bins_[bin].weight, bins_[bin].moment, false);
      grain_bins_.push_back(static_cast<std::uint32_t>(bin));
      continue;
    }
    const std::size_t begin = next;
    while (next < pairs_.size() && bin_of(static_cast<double>(unpack_value(pairs_[next])) - origin_) == bin) ++next;
    add_sorted_values(std::span(pairs_).subspan(begin, next - begin), origin_, writer);
    grain_bins_.resize(writer.size(), static_cast<std::uint32_t>(bin));
  }
  writer.finish(end_, second_moment_);
}

bool ValueBins::open(std::span<const std::uint8_t> marked) {
  bool opened = false;
  for (std::size_t g = 0; g < marked.size(); ++g) {
    if (marked[g] == 0 || is_open_[grain_bins_[g]] != 0) continue;
    is_open_[grain_bins_[g]] = 1;
    opened = true;
  }
  if (!opened) return false;
  pairs_.clear();
  values_->walk([&](std::span<const float> x, std::span<const float> w) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float weight = w.empty() ? 1.0f : w[i];
      if (weight > 0.0f && is_open_[bin_of(static_cast<double>(x[i]) - origin_)] != 0)
        pairs_.push_back(pack_weighted(x[i], weight));
    }
  });
  sort_weighted(pairs_, scratch_);
  return true;
}

}  // namespace nibble::quant
