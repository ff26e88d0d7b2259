#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nibble::quant {

/// One way of treating an item: what it costs, and what it takes of the capacity that all items share.
struct KnapsackWay {
  double loss = 0.0;  ///< finite
  std::uint64_t size = 0;
};

/// What choose_ways() found.
struct KnapsackResult {
  std::vector<std::size_t> chosen;  ///< by item: the index of its choice
  double loss = 0.0;                ///< of the choices together
  std::uint64_t size = 0;           ///< of the choices together, <= capacity
  /// No selection within the capacity has less loss than this: `loss` itself when the search ended, then it is the
  /// optimum (but for the rounding of sums in double); otherwise the bound of Lagrange's relaxation.
  double lower_bound = 0.0;
  bool exact = false;
  std::size_t states = 0;  ///< partial selections that were kept in all
};

/// Picks one choice for every item so that the sizes fit `capacity` and the losses are least: the multiple-choice
/// knapsack problem (Kellerer, Pferschy, Pisinger: Knapsack Problems, 2004, chapter 11), solved exactly.
///
///   1. Lagrange's relaxation: for a price p per unit of size every item picks its least loss + p · size on its own;
///      the best p gives the bound  L = Σ min_c (loss_c + p · size_c) - p · capacity,  and a first selection that fits.
///   2. Partial selections, item by item, of which those are kept that no other beats in both loss and size, and that L
///      does not rule out: with the rest at its least loss + p · size they must not exceed the best selection known.
///
/// A search that would keep more than `max_states` partial selections ends with what step 1 found, and its bound.
/// Throws InvalidArgument when an item has no choice, a loss is not finite, or the smallest choices together exceed
/// `capacity`. Deterministic. Cost: with n choices in all, n · 200 for the relaxation; the rest is usually less.
/// Memory: 16 bytes per state kept, and 32 for each that one item adds.
[[nodiscard]] KnapsackResult choose_ways(std::span<const std::vector<KnapsackWay>> items, std::uint64_t capacity,
                                         std::size_t max_states = std::size_t{1} << 20);

}  // namespace nibble::quant
