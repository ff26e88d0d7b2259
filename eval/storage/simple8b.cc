#include <algorithm>
#include <array>
#include <cstring>

#include "core/error.h"
#include "eval/storage/specialist_codecs.h"

namespace nibble::eval {
namespace {

constexpr unsigned kPayloadBits = 60;

struct Selector {
  std::size_t count;  // integers in a word
  unsigned bits;      // of each
};
constexpr std::array<Selector, 16> kSelectors = {{{240, 0},
                                                  {120, 0},
                                                  {60, 1},
                                                  {30, 2},
                                                  {20, 3},
                                                  {15, 4},
                                                  {12, 5},
                                                  {10, 6},
                                                  {8, 7},
                                                  {7, 8},
                                                  {6, 10},
                                                  {5, 12},
                                                  {4, 15},
                                                  {3, 20},
                                                  {2, 30},
                                                  {1, 60}}};

bool fits(std::span<const std::uint32_t> values, const Selector& selector) {
  // A last word may be filled with fewer values, but never a run of zeros: those hold 120 or 240 exactly.
  if (selector.bits == 0 && values.size() < selector.count) return false;
  const auto used = values.first(std::min(values.size(), selector.count));
  return std::all_of(used.begin(), used.end(),
                     [&](std::uint32_t v) { return (std::uint64_t{v} >> selector.bits) == 0; });
}

}  // namespace

std::vector<std::byte> simple8b_encode(std::span<const std::uint32_t> values) {
  std::vector<std::uint64_t> words;
  while (!values.empty()) {
    std::size_t s = 0;
    while (!fits(values, kSelectors[s])) ++s;  // the last one holds any 32-bit value
    const std::size_t used = std::min(values.size(), kSelectors[s].count);
    std::uint64_t word = s << kPayloadBits;
    for (std::size_t i = 0; kSelectors[s].bits > 0 && i < used; ++i)
      word |= std::uint64_t{values[i]} << (i * kSelectors[s].bits);
    words.push_back(word);
    values = values.subspan(used);
  }
  std::vector<std::byte> bytes(words.size() * 8);
  if (!words.empty()) std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

std::vector<std::uint32_t> simple8b_decode(std::span<const std::byte> bytes, std::size_t count) {
  std::vector<std::uint32_t> values(count);
  for (std::size_t done = 0; done < count; bytes = bytes.subspan(8)) {
    NIBBLE_REQUIRE(bytes.size() >= 8, FormatError, "simple8b: ends after {} of {} values", done, count);
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    const Selector selector = kSelectors[word >> kPayloadBits];
    word &= (std::uint64_t{1} << kPayloadBits) - 1;
    const std::uint64_t mask = (std::uint64_t{1} << selector.bits) - 1;
    for (std::size_t i = 0; i < selector.count && done < count; ++i, ++done) {
      const std::uint64_t value = word & mask;
      NIBBLE_REQUIRE(value <= 0xFFFFFFFFu, FormatError, "simple8b: value {} needs more than 32 bits", value);
      values[done] = static_cast<std::uint32_t>(value);
      word >>= selector.bits;
    }
  }
  return values;
}

}  // namespace nibble::eval
