#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/matrix/matrix_view.h"
#include "quant/algo/rounding/column_rounding.h"
#include "quant/format/block_palette.h"

namespace nibble::quant {

/// Settings of round_block_palette().
struct BlockPaletteOptions {
  unsigned bits = 4;       ///< 2 to 4; fixed palettes have 4
  std::size_t block = 32;  ///< inputs per block along a row, 0 = the whole row
  BlockPalette palette = BlockPalette::kLearned;
  ScaleType scale = ScaleType::kFloat16;
  bool search = false;               ///< scales of least error instead of those of the rule
  std::size_t joint_iterations = 0;  ///< learned, with search: at most this many rounds of palette and scales
};

/// A weight on one palette with a scale for each block: value (i, j) = palette[codes(i, j)] · (scales(i, j / block) ·
/// tensor_scale).
struct BlockPaletteRounding {
  std::vector<float> palette;   ///< (2^bits), ascending; a learned one exact in float16
  float tensor_scale = 1.0f;    ///< with ScaleType::kE4M3
  Matrix<float> scales;         ///< (out, blocks), as the scale's type holds them
  Matrix<std::uint8_t> codes;   ///< (out, in)
  double cost = 0.0;            ///< Σ f (w - value)² with the weights given, whatever the scales were searched for
  double optimality_gap = 0.0;  ///< learned: certified, of the palette for the scales that it was fitted with
  std::vector<double> history;  ///< learned, with search: the cost before each joint round and after the last
};

/// Rounds a weight to the nearest entries of a palette that each block of a row scales:
///
///   E = Σ f_ij (w_ij - s_ib c[q_ij])²                                                                 (1)
///
/// `weights` f (out, in), finite and >= 0, or an empty view for ones.
///
/// The rule for scales, with m the palette's entry of largest magnitude (of two alike the positive one):
///   kFloat16  x / m, x the block's value of largest magnitude, the first of them: it becomes that entry exactly
///   kE4M3     max |w| / (|m| t), rounded to nearest; t = max |W| / (448 |m|) of the tensor, 1 where that is 0
///   kE8M0     2^(floor(log2 max |w|) - floor(log2 |m|)): OCP's MX 1.0, section 6.3 (largest values may saturate)
/// A learned palette is the best there is (PaletteFitter) for W / s with weights f s², s by this rule with m = 1, and
/// is rounded to float16.
///
/// `search`: scales of least E instead, among what their type holds. kE4M3 and kE8M0: the best of all from where max
/// |w| is the palette's second largest entry (kE8M0: twice max |w| / |m|) down to a fifth of max |w| / |m|. kFloat16: a
/// geometric grid there, of either sign, each improved in closed form s' = Σ f w c / Σ f c², the best one alternated
/// with its codes and rounded to whichever of three neighbours loses least. A block keeps its rule's scale where
/// nothing found loses less. The joint rounds of a learned palette alternate the best palette for the scales with the
/// best scales for the palette; a round that does not lower E is not kept, and ends them.
///
/// Codes are of value · (1 / s) in float, midway the lower one; a scale 0 gives what 0 stands for.
///
/// Throws InvalidArgument: options, shapes or weights out of range; NumericalError: a NaN or infinite value (row and
/// column), or a kFloat16 scale by the rule beyond 65504.
/// Cost     The rule: three passes. Search: 30 to 100 evaluations of 40 instructions per 16 weights. A learned palette:
/// 8 bytes per weight and PaletteFitter::fit() for each round.
/// Threads  All; results do not depend on their number, nor on the instruction set.
[[nodiscard]] BlockPaletteRounding round_block_palette(MatrixView<const float> w, MatrixView<const float> weights,
                                                       const BlockPaletteOptions& options);

/// The same with scales searched for the error of the outputs under a Hessian h (in, in), symmetric, within blocks (of
/// 64 inputs at most, longer ones in diagonal pieces): E = δ H_b δᵀ. `weights` are for a learned palette. Requires
/// options.search and no joint_iterations.
[[nodiscard]] BlockPaletteRounding round_block_palette_hessian(MatrixView<const float> w,
                                                               MatrixView<const float> weights,
                                                               MatrixView<const float> h,
                                                               const BlockPaletteOptions& options);

/// Nearest entries of c · s_ib, for error feedback and coordinate descent.
class BlockPaletteColumns final : public ColumnRounding {
 public:
  /// The palette and scales of `rounded`, `options` as it was made with. Not static: each block's scales are chosen
  /// anew, by the rule, from the weights as they are when error feedback reaches it; tensor_scale stays.
  BlockPaletteColumns(BlockPaletteRounding rounded, const BlockPaletteOptions& options, bool static_groups);

  void round(std::size_t column, std::size_t first_row, std::span<const float> values, std::uint8_t* codes,
             float* decoded) const override;
  void decode(std::size_t column, std::size_t first_row, std::span<const std::uint8_t> codes,
              float* decoded) const override;
  std::size_t adaptive_block() const override { return static_groups_ ? 0 : block_; }
  void adapt(std::size_t block, std::size_t first_row, MatrixView<const float> current) override;

  const Matrix<float>& scales() const { return rounded_.scales; }  ///< as BlockPaletteRounding::scales

 private:
  BlockPaletteOptions options_;
  std::size_t block_;
  bool static_groups_;
  BlockPaletteRounding rounded_;
  std::vector<float> bounds_;
};

}  // namespace nibble::quant
