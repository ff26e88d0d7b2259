#include "quant/algo/grains.h"

#include <array>
#include <bit>

namespace nibble::quant {
namespace {

constexpr std::uint32_t kSign = 0x80000000u;

// Digits of the key, which is the upper half of a packed pair. Values that came from 16-bit floats have an all-zero
// lowest digit.
struct Digit {
  unsigned shift, bits;
};
constexpr std::array<Digit, 3> kDigits{{{32, 11}, {43, 11}, {54, 10}}};
constexpr std::size_t kBuckets = std::size_t{1} << 11;

std::size_t digit_of(std::uint64_t pair, Digit digit) {
  return (pair >> digit.shift) & ((std::uint64_t{1} << digit.bits) - 1);
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

std::uint64_t pack_weighted(float x, float w) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t key = (bits & kSign) != 0 ? ~bits : bits | kSign;
  return static_cast<std::uint64_t>(key) << 32 | std::bit_cast<std::uint32_t>(w);
}

float unpack_value(std::uint64_t packed) {
  const auto key = static_cast<std::uint32_t>(packed >> 32);
  return std::bit_cast<float>((key & kSign) != 0 ? key & ~kSign : ~key);
}

float unpack_weight(std::uint64_t packed) { return std::bit_cast<float>(static_cast<std::uint32_t>(packed)); }

void sort_weighted(std::vector<std::uint64_t>& pairs, std::vector<std::uint64_t>& scratch) {
  std::array<std::array<std::uint32_t, kBuckets>, kDigits.size()> counts{};
  for (const std::uint64_t pair : pairs)
    for (std::size_t d = 0; d < kDigits.size(); ++d) ++counts[d][digit_of(pair, kDigits[d])];
  scratch.resize(pairs.size());
  for (std::size_t d = 0; d < kDigits.size(); ++d) {
    if (pairs.empty() || counts[d][digit_of(pairs[0], kDigits[d])] == pairs.size()) continue;
    std::uint32_t start = 0;
    for (std::uint32_t& count : counts[d]) {
      const std::uint32_t here = count;
      count = start;
      start += here;
    }
    for (const std::uint64_t pair : pairs) scratch[counts[d][digit_of(pair, kDigits[d])]++] = pair;
    std::swap(pairs, scratch);
  }
}

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

}  // namespace nibble::quant
