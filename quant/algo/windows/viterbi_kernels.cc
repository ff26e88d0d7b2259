#include "quant/algo/windows/viterbi_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/machine/isa.h"
#include "quant/format/windowed_codes.h"

namespace nibble::quant::viterbi_kernels {

void forward_scalar(const Trellis& trellis, const float* targets, const float* factors, std::size_t rows,
                    const float* start, std::uint8_t* decisions, float* costs) {
  constexpr std::size_t kMostStates = std::size_t{1} << kMostWindowBits;
  const std::size_t branches = std::size_t{1} << trellis.bits;
  const std::size_t groups = std::size_t{1} << (trellis.window_bits - trellis.bits);
  const std::size_t plane = plane_bytes(trellis.bits, trellis.window_bits);
  const auto error = [&](std::size_t row, std::size_t place) {
    const float difference = targets[row] - factors[row] * trellis.palette[place];
    return difference * difference;
  };
  std::array<float, kMostStates / 2> least;
  for (std::size_t g = 0; g < groups; ++g) least[g] = start == nullptr ? 0.0f : start[g];
  const auto step = [&](std::size_t row) {
    for (std::size_t b = 0; b < branches; ++b)
      for (std::size_t r = 0; r < groups; ++r)
        costs[b * groups + r] = least[(r * branches + b) % groups] + error(row, b * groups + r);
  };
  step(0);
  for (std::size_t row = 1; row < rows; ++row) {
    std::uint8_t* planes = decisions + row * trellis.bits * plane;
    std::memset(planes, 0, trellis.bits * plane);
    for (std::size_t g = 0; g < groups; ++g) {
      std::size_t best = 0;
      for (std::size_t b = 1; b < branches; ++b)
        if (costs[b * groups + g] < costs[best * groups + g]) best = b;
      least[g] = costs[best * groups + g];
      for (unsigned bit = 0; bit < trellis.bits; ++bit)
        planes[bit * plane + g / 8] =
            static_cast<std::uint8_t>(planes[bit * plane + g / 8] | (best >> bit & 1) << (g % 8));
    }
    if (row % kRowsBetweenLeast == 0) {
      const float lowest = *std::min_element(least.begin(), least.begin() + static_cast<std::ptrdiff_t>(groups));
      for (std::size_t g = 0; g < groups; ++g) least[g] -= lowest;
    }
    step(row);
  }
}

decltype(&forward_scalar) active(unsigned bits, unsigned window_bits) {
  const unsigned group_bits = window_bits - bits;
  return choose_variant(forward_scalar, group_bits >= 2 ? NIBBLE_AVX2_VARIANT(forward_avx2) : nullptr,
                        group_bits >= 4 ? NIBBLE_AVX512_VARIANT(forward_avx512) : nullptr,
                        group_bits >= 2 ? NIBBLE_NEON_VARIANT(forward_neon) : nullptr);
}

}  // namespace nibble::quant::viterbi_kernels
