#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/machine/large_buffer.h"
#include "core/random.h"

namespace nibble::quant {

/// Vectors with a weight for each component, in planes: √F x and √F, so that F (x - c)² = (√F x - √F c)².
struct WeightedVectors {
  std::size_t dim = 0, count = 0;
  LargeVector<float> scaled, root;  ///< (dim, count)

  /// Room for `count` vectors.
  void resize(std::size_t dimensions, std::size_t vectors);
  void set(std::size_t v, std::size_t d, float x, float weight);
  /// x itself; 0 where it has no weight.
  float value(std::size_t v, std::size_t d) const;
};

/// What one round over all vectors finds with a palette (entries, dim).
struct Round {
  double cost = 0.0;
  std::vector<double> moments, weights;    ///< (entries, dim): Σ F x and Σ F of the vectors that chose the entry
  std::vector<std::size_t> members;        ///< (entries): how many these are
  std::vector<std::size_t> worst_vectors;  ///< the vector that loses most, of each tile, those that lose most first
};

/// Codes of the nearest entries, lowest first among equals, and the sums for the next palette. Tiles of vectors run on
/// all threads; their sums are added in order.
Round assign_vectors(const WeightedVectors& vectors, std::span<const float> palette, std::span<std::uint8_t> codes);

/// The palette that is best for a round's codes. Entries without members take worst vectors; components without weight
/// stay as they are in `palette`.
void update_palette(const WeightedVectors& vectors, const Round& round, std::span<float> palette);

/// k-means++: entries drawn one after the other with probability as to what a vector still loses (the first one: with
/// the mean as entry). Once nothing is lost the remaining entries repeat the first.
void seed_palette(const WeightedVectors& vectors, Random& random, std::span<float> palette);

}  // namespace nibble::quant
