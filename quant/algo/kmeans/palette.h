#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quant/algo/kmeans/weighted_values.h"

namespace nibble::quant {

/// Settings of fit_palette().
struct PaletteOptions {
  std::size_t centroids = 16;  ///< k, in [1, 256]. 16 gives 4-bit codes.
  /// Relative distance to the optimum that may remain, in [0, 1). 0 searches on until the optimum is proved, which
  /// costs little more: the default.
  double gap = 0.0;
};

/// A palette and what is known about it. Costs are in units of w · x².
struct Palette {
  std::vector<float> centroids;  ///< (k), ascending, finite
  double cost = 0.0;             ///< E of equation (1) for exactly these (float) centroids
  /// No palette has a lower E: a proved bound, up to a stated allowance for the rounding of sums in double.
  double lower_bound = 0.0;
  /// (cost - lower_bound) / cost; 0 for a cost of 0. A proved optimum shows the rounding allowance alone: about 1e-12
  /// for weights, more when outliers stand ten thousand deviations off.
  double gap() const { return cost > 0.0 ? (cost - lower_bound) / cost : 0.0; }
};

/// Weighted one-dimensional k-means, to the optimum:
///
///   E(c) = sum_i w[i] · min_k (x[i] - c[k])^2                                                        (1)
///
/// With w = 1 this is plain weight error; with w = diagonal of the Fisher matrix it is the second-order estimate of
/// the loss increase (SqueezeLLM, arXiv:2306.07629).
///
/// Method: the sandwich search of quant/algo/kmeans/segmentation.h, over sorted values (n <= 65536) or over fine bins
/// of which only those that the optimum's boundaries may fall into are ever sorted.
///
/// Shapes   x (n); w (n), or empty for all ones.
/// Requires n >= 1; every x finite; every w finite and >= 0. If all w are 0 they count as ones.
/// Ensures  With gap = 0, E is minimal up to rounding. If no more than k distinct values carry weight, each has a
///          centroid of its own and E = 0; spare centroids are fitted to the values of weight 0 as if these weighed 1,
///          and where none are left repeat the largest. Multiplying all x by a power of two multiplies the centroids by
///          it, exactly (short of overflow and subnormals). The order of the inputs matters at most in the last bit.
/// Throws   InvalidArgument, naming the first offending index and its value.
/// Cost     Linear passes over x and w, the sorting, and little more for smooth distributions; see
///          docs/results/kmeans.md. Memory for n > 65536: a few MB, and some 60 bytes for each value that had to be
///          sorted. Values a hundred million deviations off hide the rest in sums of double: the gap then says that E
///          may be above.
/// Threads  One object per thread. The object only keeps buffers: results do not depend on earlier calls.
class PaletteFitter {
 public:
  PaletteFitter();
  ~PaletteFitter();
  PaletteFitter(PaletteFitter&&) noexcept;
  PaletteFitter& operator=(PaletteFitter&&) noexcept;

  [[nodiscard]] Palette fit(std::span<const float> x, std::span<const float> w, const PaletteOptions& options);
  /// The same, to the bit, of values that are not held: four walks over them, or a few more.
  [[nodiscard]] Palette fit(const WeightedValues& values, const PaletteOptions& options);

 private:
  Palette finished(Palette palette, const WeightedValues& values, bool some_left, const PaletteOptions& options);
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};

/// PaletteFitter::fit() with an object of its own: for single calls.
[[nodiscard]] Palette fit_palette(std::span<const float> x, std::span<const float> w, const PaletteOptions& options);
[[nodiscard]] Palette fit_palette(const WeightedValues& values, const PaletteOptions& options);

/// codes[i] = the index of the centroid nearest to x[i]; midway between two (exactly, in real arithmetic) and among
/// equal ones the lower index. Runs at the widest instruction set; all of them give the same codes.
/// Requires 1 to 256 finite ascending centroids and codes.size() == x.size(), else InvalidArgument; x finite.
void assign_codes(std::span<const float> x, std::span<const float> centroids, std::span<std::uint8_t> codes);

/// E of equation (1) in double. w empty means ones. Requires as assign_codes().
[[nodiscard]] double palette_cost(std::span<const float> x, std::span<const float> w, std::span<const float> centroids);
[[nodiscard]] double palette_cost(const WeightedValues& values, std::span<const float> centroids);

}  // namespace nibble::quant
