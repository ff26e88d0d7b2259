#pragma once

// The forward pass over vectors of groups; included by one file per instruction set, each with a V of its own:
//
//   V::F, V::Bits     a vector of V::kLanes floats, and an integer of as many bits
//   load, store, broadcast, add, subtract, multiply, minimum(a, b) = a < b ? a : b, less(a, b) as Bits
//   even(a, b), odd(a, b)   of the lanes of a and then b, every other
//   strided<n>(a, b)        lane l = a[(n·l + b) mod lanes]
namespace nibble::quant::viterbi_kernels {
namespace {

// Of n vectors side by side, entry b, b + n, b + 2n, … into x[b].
template <class V, unsigned n>
inline __attribute__((always_inline)) void deinterleave(typename V::F* x) {
  if constexpr (n > 1) {
    typename V::F even[n / 2], odd[n / 2];
#pragma GCC unroll 8
    for (unsigned j = 0; j < n / 2; ++j) {
      even[j] = V::even(x[2 * j], x[2 * j + 1]);
      odd[j] = V::odd(x[2 * j], x[2 * j + 1]);
    }
    deinterleave<V, n / 2>(even);
    deinterleave<V, n / 2>(odd);
#pragma GCC unroll 8
    for (unsigned j = 0; j < n / 2; ++j) {
      x[2 * j] = even[j];
      x[2 * j + 1] = odd[j];
    }
  }
}

// The first of n candidates with the least cost in every lane: its cost, and the bits of its number as planes.
template <class V, unsigned kBits>
inline __attribute__((always_inline)) typename V::F choose(typename V::F* cost, typename V::Bits* planes) {
  constexpr unsigned kBranches = 1u << kBits;
  typename V::Bits chosen[kBits][kBranches / 2];
#pragma GCC unroll 4
  for (unsigned level = 0; level < kBits; ++level) {
    for (unsigned j = 0; j < kBranches >> (level + 1); ++j) {
      const typename V::Bits second = V::less(cost[2 * j + 1], cost[2 * j]);
      cost[j] = V::minimum(cost[2 * j + 1], cost[2 * j]);
      for (unsigned lower = 0; lower < level; ++lower)
        chosen[lower][j] =
            static_cast<typename V::Bits>((chosen[lower][2 * j + 1] & second) | (chosen[lower][2 * j] & ~second));
      chosen[level][j] = second;
    }
  }
#pragma GCC unroll 4
  for (unsigned bit = 0; bit < kBits; ++bit) planes[bit] = chosen[bit][0];
  return cost[0];
}

template <class V, unsigned kBits, unsigned kWindowBits>
void forward(const Trellis& trellis, const float* targets, const float* factors, std::size_t rows, const float* start,
             std::uint8_t* decisions, float* costs) {
  using F = typename V::F;
  constexpr unsigned kBranches = 1u << kBits, kGroups = 1u << (kWindowBits - kBits), kLanes = V::kLanes;
  constexpr unsigned kChunks = kGroups / kLanes, kPlane = kGroups / 8;
  // What the chunks of one branch get of the groups' least costs repeats after so many.
  constexpr unsigned kSpread = kChunks >= kBranches ? kChunks / kBranches : 1;
  static_assert(kChunks >= 1);

  F paths[kBranches][kChunks], least[kChunks], spread[kBranches][kSpread];
  const auto step = [&](std::size_t row) __attribute__((always_inline)) {
    const F target = V::broadcast(targets[row]), factor = V::broadcast(factors[row]);
#pragma GCC unroll 16
    for (unsigned b = 0; b < kBranches; ++b)
#pragma GCC unroll 4
      for (unsigned c = 0; c < kChunks; ++c) {
        const F entry = V::load(trellis.palette + b * kGroups + c * kLanes);
        const F error = V::subtract(target, V::multiply(factor, entry));
        paths[b][c] = V::add(spread[b][c % kSpread], V::multiply(error, error));
      }
  };
  // What the groups' least costs are to the windows that follow.
  const auto distribute = [&]() __attribute__((always_inline)) {
    if constexpr (kChunks == 1) {
#pragma GCC unroll 16
      for (unsigned b = 0; b < kBranches; ++b) spread[b][0] = V::template strided<kBranches>(least[0], b);
    } else {
#pragma GCC unroll 4
      for (unsigned s = 0; s < kSpread; ++s) {
        F side_by_side[kBranches];
#pragma GCC unroll 16
        for (unsigned b = 0; b < kBranches; ++b) side_by_side[b] = least[(s * kBranches + b) % kChunks];
        deinterleave<V, kBranches>(side_by_side);
#pragma GCC unroll 16
        for (unsigned b = 0; b < kBranches; ++b) spread[b][s] = side_by_side[b];
      }
    }
  };
  for (unsigned c = 0; c < kChunks; ++c) least[c] = start == nullptr ? V::broadcast(0.0f) : V::load(start + c * kLanes);
  distribute();
  step(0);
  for (std::size_t row = 1; row < rows; ++row) {
    std::uint8_t* planes = decisions + row * (kBits * kPlane);
#pragma GCC unroll 4
    for (unsigned c = 0; c < kChunks; ++c) {
      F cost[kBranches];
#pragma GCC unroll 16
      for (unsigned b = 0; b < kBranches; ++b) cost[b] = paths[b][c];
      typename V::Bits chosen[kBits];
      least[c] = choose<V, kBits>(cost, chosen);
#pragma GCC unroll 4
      for (unsigned bit = 0; bit < kBits; ++bit)
        __builtin_memcpy(planes + bit * kPlane + c * sizeof chosen[bit], &chosen[bit], sizeof chosen[bit]);
    }
    if (row % kRowsBetweenLeast == 0) {
      // Through memory: GCC 12 makes wrong code of a reduction in registers here.
      float lanes[kGroups];
      for (unsigned c = 0; c < kChunks; ++c) V::store(lanes + c * kLanes, least[c]);
      float lowest = lanes[0];
      for (unsigned g = 1; g < kGroups; ++g) lowest = lanes[g] < lowest ? lanes[g] : lowest;
      for (unsigned c = 0; c < kChunks; ++c) least[c] = V::subtract(least[c], V::broadcast(lowest));
    }
    distribute();
    step(row);
  }
  for (unsigned b = 0; b < kBranches; ++b)
    for (unsigned c = 0; c < kChunks; ++c) V::store(costs + b * kGroups + c * kLanes, paths[b][c]);
}

// forward() for the widths of a trellis of at least kLeastGroupBits.
template <class V, unsigned kLeastGroupBits, unsigned kBits, unsigned kWindowBits>
void forward_from(const Trellis& trellis, const float* targets, const float* factors, std::size_t rows,
                  const float* start, std::uint8_t* decisions, float* costs) {
  if constexpr (kWindowBits <= 10) {
    if (trellis.window_bits != kWindowBits)
      return forward_from<V, kLeastGroupBits, kBits, kWindowBits + 1>(trellis, targets, factors, rows, start, decisions,
                                                                      costs);
    forward<V, kBits, kWindowBits>(trellis, targets, factors, rows, start, decisions, costs);
  }
}

template <class V, unsigned kLeastGroupBits>
void forward_any(const Trellis& trellis, const float* targets, const float* factors, std::size_t rows,
                 const float* start, std::uint8_t* decisions, float* costs) {
  constexpr unsigned g = kLeastGroupBits;
  switch (trellis.bits) {  // NOLINT(bugprone-branch-clone): the branches differ in their template arguments
    case 1:
      return forward_from<V, g, 1, 1 + g>(trellis, targets, factors, rows, start, decisions, costs);
    case 2:
      return forward_from<V, g, 2, 2 + g>(trellis, targets, factors, rows, start, decisions, costs);
    case 3:
      return forward_from<V, g, 3, 3 + g>(trellis, targets, factors, rows, start, decisions, costs);
    default:
      return forward_from<V, g, 4, 4 + g>(trellis, targets, factors, rows, start, decisions, costs);
  }
}

}  // namespace
}  // namespace nibble::quant::viterbi_kernels
