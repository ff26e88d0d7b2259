#include "quant/algo/kmeans/grains.h"

#include <algorithm>
#include <array>
#include <bit>

namespace nibble::quant {
namespace {

// Digits of the key, of a packed pair its upper half. Values that came from 16-bit floats have an all-zero
// lowest digit.
struct Digit {
  unsigned shift, bits;
};
constexpr std::array<Digit, 3> kDigits{{{0, 11}, {11, 11}, {22, 10}}};
constexpr std::size_t kBuckets = std::size_t{1} << 11;

std::size_t digit_of(std::uint32_t key, Digit digit) {
  return (key >> digit.shift) & ((std::uint32_t{1} << digit.bits) - 1);
}

std::uint32_t key_of(std::uint32_t key) { return key; }
std::uint32_t key_of(std::uint64_t pair) { return static_cast<std::uint32_t>(pair >> 32); }

/// Calls visit(value, begin, end) for each run of equal values among sorted elements. Where the runs end is found
/// without a branch, some hundred elements ahead: it cannot be foretold where about every second value is repeated.
template <class Element, class Visit>
void for_each_run(std::span<const Element> elements, const Visit& visit) {
  constexpr std::size_t kAhead = 256;
  std::array<std::uint32_t, kAhead> ends;
  std::size_t begin = 0;
  for (std::size_t from = 1; from < elements.size(); from += kAhead) {
    std::size_t count = 0;
    for (std::size_t i = from; i < std::min(elements.size(), from + kAhead); ++i) {
      ends[count] = static_cast<std::uint32_t>(i);
      count += value_of_key(key_of(elements[i])) != value_of_key(key_of(elements[i - 1])) ? 1u : 0u;
    }
    for (std::size_t run = 0; run < count; begin = ends[run], ++run)
      visit(value_of_key(key_of(elements[begin])), begin, std::size_t{ends[run]});
  }
  if (!elements.empty()) visit(value_of_key(key_of(elements[begin])), begin, elements.size());
}

template <class Element>
void radix_sort(LargeVector<Element>& elements, LargeVector<Element>& scratch) {
  std::array<std::array<std::uint32_t, kBuckets>, kDigits.size()> counts{};
  for (const Element element : elements)
    for (std::size_t d = 0; d < kDigits.size(); ++d) ++counts[d][digit_of(key_of(element), kDigits[d])];
  scratch.resize(elements.size());
  for (std::size_t d = 0; d < kDigits.size(); ++d) {
    if (elements.empty() || counts[d][digit_of(key_of(elements[0]), kDigits[d])] == elements.size()) continue;
    std::uint32_t start = 0;
    for (std::uint32_t& count : counts[d]) {
      const std::uint32_t here = count;
      count = start;
      start += here;
    }
    for (const Element element : elements) scratch[counts[d][digit_of(key_of(element), kDigits[d])]++] = element;
    std::swap(elements, scratch);
  }
}

}  // namespace

GrainWriter::GrainWriter(Grains& grains, std::size_t capacity) : grains_(&grains) {
  grains.x.resize(capacity + 1);
  grains.weight.resize(capacity + 1);
  grains.moment.resize(capacity + 1);
  grains.exact.resize(capacity);
  grains.weight.set(0, {});
  grains.moment.set(0, {});
  x_ = grains.x.data();
  weight_high_ = grains.weight.high.data();
  weight_low_ = grains.weight.low.data();
  moment_high_ = grains.moment.high.data();
  moment_low_ = grains.moment.low.data();
  exact_ = grains.exact.data();
}

void GrainWriter::finish(double end, double second_moment) {
  x_[count_] = end;
  grains_->x.resize(count_ + 1);
  grains_->weight.resize(count_ + 1);
  grains_->moment.resize(count_ + 1);
  grains_->exact.resize(count_);
  grains_->second_moment = second_moment;
}

std::uint64_t pack_weighted(float x, float w) {
  return static_cast<std::uint64_t>(sort_key(x)) << 32 | std::bit_cast<std::uint32_t>(w);
}

float unpack_value(std::uint64_t packed) { return value_of_key(key_of(packed)); }

float unpack_weight(std::uint64_t packed) { return std::bit_cast<float>(static_cast<std::uint32_t>(packed)); }

void sort_weighted(LargeVector<std::uint64_t>& pairs, LargeVector<std::uint64_t>& scratch) {
  radix_sort(pairs, scratch);
}

void sort_keys(LargeVector<std::uint32_t>& keys, LargeVector<std::uint32_t>& scratch) { radix_sort(keys, scratch); }

double add_sorted_values(std::span<const std::uint64_t> pairs, double origin, GrainWriter& writer) {
  TwiceSum second_moment;
  GrainWriter here = writer;
  for_each_run(pairs, [&](float x, std::size_t begin, std::size_t end) {
    double weight = 0.0;
    for (std::size_t i = begin; i < end; ++i) weight += static_cast<double>(unpack_weight(pairs[i]));
    const double value = static_cast<double>(x) - origin, moment = weight * value;
    here.add(value, weight, moment, true);
    second_moment.add(moment * value);
  });
  writer = here;
  return second_moment.value();
}

double add_sorted_keys(std::span<const std::uint32_t> keys, double origin, GrainWriter& writer) {
  TwiceSum second_moment;
  GrainWriter here = writer;
  for_each_run(keys, [&](float x, std::size_t begin, std::size_t end) {
    const double value = static_cast<double>(x) - origin, moment = static_cast<double>(end - begin) * value;
    here.add_equal(value, end - begin, moment);
    second_moment.add(moment * value);
  });
  writer = here;
  return second_moment.value();
}

}  // namespace nibble::quant
