#include "quant/algo/kmeans/grains.h"

#include <array>
#include <bit>

namespace nibble::quant {
namespace {

constexpr std::uint32_t kSign = 0x80000000u;

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

GrainWriter::GrainWriter(Grains& grains, std::size_t capacity) : grains_(grains) {
  grains_.x.resize(capacity + 1);
  grains_.weight.resize(capacity + 1);
  grains_.moment.resize(capacity + 1);
  grains_.exact.resize(capacity);
  grains_.weight.set(0, {});
  grains_.moment.set(0, {});
}

void GrainWriter::finish(double end, double second_moment) {
  grains_.x[count_] = end;
  grains_.x.resize(count_ + 1);
  grains_.weight.resize(count_ + 1);
  grains_.moment.resize(count_ + 1);
  grains_.exact.resize(count_);
  grains_.second_moment = second_moment;
}

std::uint32_t sort_key(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

float value_of_key(std::uint32_t key) { return std::bit_cast<float>((key & kSign) != 0 ? key & ~kSign : ~key); }

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
  for (std::size_t i = 0; i < pairs.size();) {
    const float x = unpack_value(pairs[i]);
    double weight = 0.0;
    do weight += static_cast<double>(unpack_weight(pairs[i]));
    while (++i < pairs.size() && unpack_value(pairs[i]) == x);
    const double value = static_cast<double>(x) - origin, moment = weight * value;
    writer.add(value, weight, moment, true);
    second_moment.add(moment * value);
  }
  return second_moment.value();
}

double add_sorted_keys(std::span<const std::uint32_t> keys, double origin, GrainWriter& writer) {
  TwiceSum second_moment;
  for (std::size_t i = 0; i < keys.size();) {
    const float x = value_of_key(keys[i]);
    const std::size_t first = i;
    do ++i;
    while (i < keys.size() && value_of_key(keys[i]) == x);
    const double value = static_cast<double>(x) - origin, moment = static_cast<double>(i - first) * value;
    writer.add_equal(value, i - first, moment);
    second_moment.add(moment * value);
  }
  return second_moment.value();
}

}  // namespace nibble::quant
