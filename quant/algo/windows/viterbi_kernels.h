#pragma once

#include <cstddef>
#include <cstdint>

// The forward pass of WindowSearch (quant/algo/windows/window_search.h), per instruction set. All sets give the same
// bits.
namespace nibble::quant::viterbi_kernels {

/// A palette in the order of the kernels. With k = bits, L = window_bits and G = 2^(L-k) groups, state q (a window)
/// stands at (q mod 2^k) · G + q / 2^k: the 2^k states that differ in their low bits alone, which the next window does
/// not have, stand G apart.
struct Trellis {
  const float* palette;  ///< (2^k, G)
  unsigned bits, window_bits;
};

/// Every so many rows the least of all costs is taken off: they stay as exact as float is for a few rows.
constexpr std::size_t kRowsBetweenLeast = 64;

/// Bytes of one row's decisions: for each of the k low bits that a group's best predecessor has, G bits, bit g of them
/// bit g % 8 of byte g / 8; the lowest bit's first.
constexpr std::size_t plane_bytes(unsigned bits, unsigned window_bits) {
  const std::size_t groups = std::size_t{1} << (window_bits - bits);
  return groups < 8 ? 1 : groups / 8;
}

/// costs (2^L, in the palette's order): of the cheapest path that ends in each state, less a number that all share,
///
///   P_0(q) = (t_0 - u_0 c[q])² + start[q mod G],   P_i(q) = (t_i - u_i c[q])² + min over b of P_{i-1}(2^k (q mod G) +
///   b)
///
/// with `start` (G) what a path costs before its first row by the low bits of its first window, or null for zeros,
/// and in `decisions` (rows, k, plane_bytes()) for every row but the first the first b that has the minimum, by group
/// q mod G.
void forward_scalar(const Trellis& trellis, const float* targets, const float* factors, std::size_t rows,
                    const float* start, std::uint8_t* decisions, float* costs);
/// The same for at least 4 groups (AVX2, NEON) or 16 (AVX-512).
void forward_avx2(const Trellis& trellis, const float* targets, const float* factors, std::size_t rows,
                  const float* start, std::uint8_t* decisions, float* costs);
void forward_avx512(const Trellis& trellis, const float* targets, const float* factors, std::size_t rows,
                    const float* start, std::uint8_t* decisions, float* costs);
void forward_neon(const Trellis& trellis, const float* targets, const float* factors, std::size_t rows,
                  const float* start, std::uint8_t* decisions, float* costs);

/// The one for a number of groups, of the instruction set in force.
decltype(&forward_scalar) active(unsigned bits, unsigned window_bits);

}  // namespace nibble::quant::viterbi_kernels
