#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "quant/algo/windows/viterbi_kernels.h"

namespace nibble::quant {

/// Codes of one input of a weight with a windowed palette (quant/format/windowed_codes.h) that are the best of all its
/// streams, by Viterbi's algorithm over 2^window_bits states:
///
///   minimise over streams   Σ_i (t_i − u_i c[q_i])²,   q_i = bits [i·k, i·k + L) of the stream                 (1)
///
/// With t = v √f and u = s √f that is Σ f_i (v_i − s_i c[q_i])². Costs are summed in float, the least of them taken off
/// every 64 rows. Among equally good streams the choice is the same with every instruction set.
/// Source: trellis-coded quantization (Marcellin and Fischer 1990) on the shift register of arXiv:2406.11235.
///
/// Cost      rows · 2^L comparisons and additions, in SIMD over states. Memory: rows · k · 2^(L-k) / 8 bytes.
/// Threads   one object each; search() keeps buffers.
class WindowSearch {
 public:
  /// palette (2^window_bits), finite. Throws InvalidArgument: a size or widths that WindowedLayout::check() refuses.
  WindowSearch(std::span<const float> palette, unsigned bits, unsigned window_bits);

  WindowSearch(WindowSearch&&) = default;  // not copied: trellis_ points into palette_
  WindowSearch& operator=(WindowSearch&&) = default;

  /// targets t, factors u, codes q (rows each, at least 1). Always gives a stream's codes, the best ones where all
  /// values are finite.
  void search(std::span<const float> targets, std::span<const float> factors, std::span<std::uint16_t> codes);
  /// The best of the streams that go on from the window `before`, which the row before the first one has, and to the
  /// window `after`, which the row behind the last one has; either may be missing.
  void search_between(std::optional<std::uint16_t> before, std::optional<std::uint16_t> after,
                      std::span<const float> targets, std::span<const float> factors, std::span<std::uint16_t> codes);

 private:
  std::vector<float> palette_;  // in the order of the kernels
  viterbi_kernels::Trellis trellis_;
  decltype(&viterbi_kernels::forward_scalar) forward_;
  std::vector<std::uint8_t> decisions_;
  std::vector<float> costs_, start_;
};

}  // namespace nibble::quant
