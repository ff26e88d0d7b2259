#include "quant/algo/windows/window_search.h"

#include <algorithm>

#include "core/error.h"
#include "quant/format/windowed_codes.h"

namespace nibble::quant {
namespace {

constexpr float kNever = 1e30f;  // above every sum of squared errors, and a sum of both is still finite

}  // namespace

WindowSearch::WindowSearch(std::span<const float> palette, unsigned bits, unsigned window_bits)
    : palette_(palette.size()),
      trellis_{palette_.data(), bits, window_bits},
      forward_(viterbi_kernels::active(bits, window_bits)),
      costs_(palette.size()) {
  NIBBLE_REQUIRE(window_bits >= kLeastWindowBits && window_bits <= kMostWindowBits && bits >= 1 &&
                     bits <= kMostWindowStep && bits < window_bits && palette.size() == std::size_t{1} << window_bits,
                 InvalidArgument, "WindowSearch: {} entries for windows of {} bits that go on by {}", palette.size(),
                 window_bits, bits);
  const std::size_t groups = std::size_t{1} << (window_bits - bits);
  for (std::size_t state = 0; state < palette.size(); ++state)
    palette_[(state & ((1u << bits) - 1)) * groups + (state >> bits)] = palette[state];
}

void WindowSearch::search(std::span<const float> targets, std::span<const float> factors,
                          std::span<std::uint16_t> codes) {
  search_between(std::nullopt, std::nullopt, targets, factors, codes);
}

void WindowSearch::search_between(std::optional<std::uint16_t> before, std::optional<std::uint16_t> after,
                                  std::span<const float> targets, std::span<const float> factors,
                                  std::span<std::uint16_t> codes) {
  const std::size_t rows = targets.size();
  NIBBLE_REQUIRE(rows >= 1 && factors.size() == rows && codes.size() == rows, InvalidArgument,
                 "WindowSearch: {} targets, {} factors and {} codes", rows, factors.size(), codes.size());
  const unsigned bits = trellis_.bits, shared = trellis_.window_bits - bits;
  const std::size_t plane = viterbi_kernels::plane_bytes(bits, trellis_.window_bits), step = plane * bits;
  if (decisions_.size() < rows * step) decisions_.resize(rows * step);
  const std::size_t groups = std::size_t{1} << shared;
  if (before) {
    start_.assign(groups, kNever);
    start_[static_cast<std::size_t>(*before >> bits)] = 0.0f;
  }
  forward_(trellis_, targets.data(), factors.data(), rows, before ? start_.data() : nullptr, decisions_.data(),
           costs_.data());
  // The windows that `after` may follow stand a group's number of places apart.
  std::size_t best = after ? *after & (groups - 1) : 0;
  for (std::size_t place = best; place < costs_.size(); place += after ? groups : 1)
    if (costs_[place] < costs_[best]) best = place;
  // Back from a place in the kernels' order to a window.
  std::size_t state = (best & ((std::size_t{1} << shared) - 1)) << bits | best >> shared;
  const std::size_t in_common = (std::size_t{1} << shared) - 1;
  for (std::size_t row = rows - 1;; --row) {
    codes[row] = static_cast<std::uint16_t>(state);
    if (row == 0) break;
    const std::size_t group = state & in_common;
    const std::uint8_t* planes = decisions_.data() + row * step + group / 8;
    std::size_t low = 0;
    for (unsigned bit = 0; bit < bits; ++bit)
      low |= static_cast<std::size_t>(planes[bit * plane] >> (group % 8) & 1) << bit;
    state = group << bits | low;
  }
  // Values whose squares overflow could have led elsewhere: whatever they are, the stream goes on from `before`.
  if (before && (codes[0] & in_common) != static_cast<std::size_t>(*before >> bits)) {
    auto low = static_cast<std::size_t>(*before >> bits);
    for (std::size_t row = 0; row < rows; ++row) {
      codes[row] = static_cast<std::uint16_t>((codes[row] & ~in_common) | low);
      low = static_cast<std::size_t>(codes[row] >> bits);
    }
  }
}

}  // namespace nibble::quant
