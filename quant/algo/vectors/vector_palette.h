#pragma once

#include <cstddef>
#include <cstdint>

#include "core/matrix/dtype.h"
#include "core/matrix/matrix_view.h"

namespace nibble::quant {

/// Settings of palettize_vectors().
struct VectorPaletteOptions {
  unsigned bits = 8;                  ///< of a code, 1 to 8: palettes of 2^bits vectors; bits / dim per weight
  std::size_t dim = 2;                ///< inputs per code: 2 or 4
  std::size_t group_rows = 0;         ///< output rows that share one palette; 0 = all, 1 = channel
  DType palette_dtype = DType::kF16;  ///< kF16, kF32 or kI8: what the entries are rounded to
  std::uint64_t seed = 0;
  std::size_t starts = 3;  ///< k-means++ starts, of which the best goes on
};

/// A weight as vector palettes and codes: value (i, j) = palettes(i / group_rows, codes(i, j / dim) · dim + j % dim).
struct VectorPalettization {
  Matrix<float> palettes;      ///< (groups, 2^bits · dim), every entry exact in palette_dtype
  Matrix<std::uint8_t> codes;  ///< (out, in / dim)
  double cost = 0.0;           ///< equation (1) with these palettes and codes, its terms in float
};

/// Weighted k-means over vectors of `dim` consecutive inputs, with a weight for every component:
///
///   E = Σ_v Σ_d F_vd (x_vd - c_{q_v, d})²                                                              (1)
///
/// Core ML and others weigh a vector as a whole by the sum of its F; weighing components is the second-order estimate
/// of the loss itself and costs the same: codes are the nearest entries in the vector's own metric, entries the means
/// c_kd = Σ F x / Σ F of each component.
///
/// Method: `starts` times a k-means++ start and a few rounds of Lloyd's, on 32768 vectors drawn from the group if it
/// has more; the best of them goes on with all vectors until a round gains less than 1e-4. An entry that no vector
/// chooses moves to a vector that loses most. Entries are rounded to `palette_dtype`, then codes chosen once more. E
/// never rises from round to round; it ends in a local minimum, not in a proved optimum as scalar palettes do.
///
/// `weights` F (out, in), or an empty view for ones; where F is 0 the value does not count. A group of zero weights
/// counts as ones. Groups with no more distinct vectors than entries are stored as they are, but for the rounding.
/// Throws InvalidArgument: options or shapes, in not divisible by dim, a weight negative or not finite; NumericalError:
/// a NaN or infinite value, or an entry that its type cannot hold.
/// Cost: per round and weight 2^bits fused multiply-adds (sixteen at once), for some 20 to 40 rounds. Memory: 8 bytes
/// per weight of a group. Threads: groups, or the vectors of the only group, run on all; results do not depend on their
/// number.
[[nodiscard]] VectorPalettization palettize_vectors(MatrixView<const float> w, MatrixView<const float> weights,
                                                    const VectorPaletteOptions& options);

}  // namespace nibble::quant
