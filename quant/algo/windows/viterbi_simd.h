#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/algo/windows/viterbi_kernels.h"

// The forward pass over vectors of groups; included by one file per instruction set, each with a V of its own:
//
//   V::F, V::Mask     vectors of V::kWidth floats, and of what comparing them gives
//   load, store, set, add, sub, mul, minimum(a, b) = a < b ? a : b, less(a, b) as Mask
//   select(mask, a, b)      masks: of a where `mask` holds, else of b
//   bits(mask)              an integer of as many bits as lanes
//   even(a, b), odd(a, b)   of the lanes of a and then b, every other
//   strided<n>(a, b)        lane l = a[(n·l + b) mod lanes]
//   deinterleave<n, m>(x)   where a tier has a quicker way than the pairs of deinterleave() below
namespace nibble::quant::viterbi_kernels {
namespace {

// x[b] = of m vectors side by side, entry b, b + n, b + 2n, …, from the first again behind the last; m divides n.
template <class V, unsigned n, unsigned m>
inline __attribute__((always_inline)) void deinterleave(typename V::F* x) {
  if constexpr (n > 1 && m == 1) {
    const typename V::F all = x[0];
#pragma GCC unroll 16
    for (unsigned b = 0; b < n; ++b) x[b] = V::template strided<n>(all, b);
  } else if constexpr (requires { V::template deinterleave<n, m>(x); }) {
    V::template deinterleave<n, m>(x);
  } else if constexpr (n > 1) {
    typename V::F even[n / 2], odd[n / 2];
#pragma GCC unroll 8
    for (unsigned j = 0; j < m / 2; ++j) {
      even[j] = V::even(x[2 * j], x[2 * j + 1]);
      odd[j] = V::odd(x[2 * j], x[2 * j + 1]);
    }
    deinterleave<V, n / 2, m / 2>(even);
    deinterleave<V, n / 2, m / 2>(odd);
#pragma GCC unroll 8
    for (unsigned j = 0; j < n / 2; ++j) {
      x[2 * j] = even[j];
      x[2 * j + 1] = odd[j];
    }
  }
}

// The least of candidates in every lane, and the bits of its number as planes: of equal ones the first.
template <class V, unsigned kBits>
struct Least {
  typename V::F cost;
  typename V::Mask planes[kBits == 0 ? 1 : kBits];
};

// Of the 2^kBits candidates from `first` on. Depth first, so that few costs are alive at a time.
template <class V, unsigned kBits, class Cost>
inline __attribute__((always_inline)) Least<V, kBits> least_of(const Cost& cost, unsigned first) {
  Least<V, kBits> least;
  if constexpr (kBits == 0) {
    least.cost = cost(first);
  } else {
    const auto low = least_of<V, kBits - 1>(cost, first),
               high = least_of<V, kBits - 1>(cost, first + (1u << (kBits - 1)));
    const typename V::Mask second = V::less(high.cost, low.cost);
    least.cost = V::minimum(high.cost, low.cost);
#pragma GCC unroll 4
    for (unsigned bit = 0; bit + 1 < kBits; ++bit)
      least.planes[bit] = V::select(second, high.planes[bit], low.planes[bit]);
    least.planes[kBits - 1] = second;
  }
  return least;
}

template <class V, unsigned kBits, unsigned kWindowBits>
void forward(const Trellis& trellis, const float* targets, const float* factors, std::size_t rows, const float* start,
             std::uint8_t* decisions, float* costs) {
  using F = typename V::F;
  constexpr unsigned kBranches = 1u << kBits, kGroups = 1u << (kWindowBits - kBits), kWidth = V::kWidth;
  constexpr unsigned kChunks = kGroups / kWidth, kPlane = plane_bytes(kBits, kWindowBits);
  // What the chunks of one branch get of the groups' least costs repeats after so many.
  constexpr unsigned kSpread = kChunks >= kBranches ? kChunks / kBranches : 1;
  static_assert(kChunks >= 1);

  F least[kChunks], spread[kBranches][kSpread];
  // Of the paths that end in the windows of branch b and chunk c.
  const auto path = [&](F target, F factor, unsigned b, unsigned c) __attribute__((always_inline)) {
    const F entry = V::load(trellis.palette + b * kGroups + c * kWidth);
    const F error = V::sub(target, V::mul(factor, entry));
    return V::add(spread[b][c % kSpread], V::mul(error, error));
  };
  // What the groups' least costs are to the windows that follow.
  const auto distribute = [&]() __attribute__((always_inline)) {
    if constexpr (kChunks > 1 && kBranches >= kGroups) {
      // One group is before all windows of a branch. Loads that broadcast are cheaper than permutations.
      float costs_of_groups[kGroups];
#pragma GCC unroll 4
      for (unsigned c = 0; c < kChunks; ++c) V::store(costs_of_groups + c * kWidth, least[c]);
#pragma GCC unroll 16
      for (unsigned b = 0; b < kBranches; ++b) spread[b][0] = V::set(costs_of_groups[b % kGroups]);
    } else {
      constexpr unsigned kDistinct = kChunks < kBranches ? kChunks : kBranches;
#pragma GCC unroll 4
      for (unsigned s = 0; s < kSpread; ++s) {
        F side_by_side[kBranches];
#pragma GCC unroll 16
        for (unsigned c = 0; c < kDistinct; ++c) side_by_side[c] = least[s * kDistinct + c];
        deinterleave<V, kBranches, kDistinct>(side_by_side);
#pragma GCC unroll 16
        for (unsigned b = 0; b < kBranches; ++b) spread[b][s] = side_by_side[b];
      }
    }
  };
  for (unsigned c = 0; c < kChunks; ++c) least[c] = start == nullptr ? V::set(0.0f) : V::load(start + c * kWidth);
  distribute();
  for (std::size_t row = 1; row < rows; ++row) {
    std::uint8_t* planes = decisions + row * (kBits * kPlane);
    const F target = V::set(targets[row - 1]), factor = V::set(factors[row - 1]);
#pragma GCC unroll 4
    for (unsigned c = 0; c < kChunks; ++c) {
      const auto chosen = least_of<V, kBits>(
          [&](unsigned b) __attribute__((always_inline)) { return path(target, factor, b, c); }, 0);
      least[c] = chosen.cost;
#pragma GCC unroll 4
      for (unsigned bit = 0; bit < kBits; ++bit) {
        const auto bits = V::bits(chosen.planes[bit]);
        __builtin_memcpy(planes + bit * kPlane + c * sizeof bits, &bits, sizeof bits);
      }
    }
    if (row % kRowsBetweenLeast == 0) {
      // Through memory: GCC 12 makes wrong code of a reduction in registers here.
      float lanes[kGroups];
      for (unsigned c = 0; c < kChunks; ++c) V::store(lanes + c * kWidth, least[c]);
      float lowest = lanes[0];
      for (unsigned g = 1; g < kGroups; ++g) lowest = lanes[g] < lowest ? lanes[g] : lowest;
      for (unsigned c = 0; c < kChunks; ++c) least[c] = V::sub(least[c], V::set(lowest));
    }
    distribute();
  }
  const F target = V::set(targets[rows - 1]), factor = V::set(factors[rows - 1]);
  for (unsigned b = 0; b < kBranches; ++b)
    for (unsigned c = 0; c < kChunks; ++c) V::store(costs + b * kGroups + c * kWidth, path(target, factor, b, c));
}

// forward() for the widths of a trellis from kWindowBits on, of at most kMost group bits.
template <class V, unsigned kMost, unsigned kBits, unsigned kWindowBits>
void forward_from(const Trellis& trellis, const float* targets, const float* factors, std::size_t rows,
                  const float* start, std::uint8_t* decisions, float* costs) {
  if constexpr (kWindowBits <= 10 && kWindowBits - kBits <= kMost) {
    if (trellis.window_bits != kWindowBits)
      return forward_from<V, kMost, kBits, kWindowBits + 1>(trellis, targets, factors, rows, start, decisions, costs);
    forward<V, kBits, kWindowBits>(trellis, targets, factors, rows, start, decisions, costs);
  }
}

// Of a trellis whose windows are kLeast to kMost bits longer than their steps.
template <class V, unsigned kLeast, unsigned kMost = 10>
void forward_any(const Trellis& trellis, const float* targets, const float* factors, std::size_t rows,
                 const float* start, std::uint8_t* decisions, float* costs) {
  switch (trellis.bits) {  // NOLINT(bugprone-branch-clone): the branches differ in their template arguments
    case 1:
      return forward_from<V, kMost, 1, 1 + kLeast>(trellis, targets, factors, rows, start, decisions, costs);
    case 2:
      return forward_from<V, kMost, 2, 2 + kLeast>(trellis, targets, factors, rows, start, decisions, costs);
    case 3:
      return forward_from<V, kMost, 3, 3 + kLeast>(trellis, targets, factors, rows, start, decisions, costs);
    default:
      return forward_from<V, kMost, 4, 4 + kLeast>(trellis, targets, factors, rows, start, decisions, costs);
  }
}

}  // namespace
}  // namespace nibble::quant::viterbi_kernels
