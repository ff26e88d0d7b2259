#pragma once

#include <cstddef>
#include <vector>

#include "core/matrix/dtype.h"
#include "core/matrix/matrix_view.h"
#include "quant/algo/blocks/block_palette.h"
#include "quant/algo/blocks/block_rounding.h"
#include "quant/algo/palettes/outliers.h"
#include "quant/algo/palettes/scaled_palette.h"
#include "quant/algo/solve/codebook_update.h"
#include "quant/algo/solve/hessian.h"
#include "quant/recipe/settings.h"

namespace nibble::quant {

/// Added to the diagonal of H_O, which is 1 on average: else outputs that have next to no gradient on the text of
/// calibration take what all others leave, and ruin the few windows of other text where they count
/// (docs/results/curvature.md).
inline constexpr float kOutputDamping = 0.1f;

/// How a recipe has a weight's Hessian factored.
FactorOptions factor_options(const TensorSettings& settings, bool act_order);

/// What the Hessian of one weight was like.
struct SolverFigures {
  double damping = 0.0;           ///< added to its diagonal to make it positive definite, as a share of it
  std::size_t silent_inputs = 0;  ///< HessianFactor::silent: inputs that are dead, or constant when centred
};

/// What `solver: gptq` and `coordinate-descent` do under a Hessian h (in, in) to a weight w (out, in) for which nearest
/// codes, palettes and scales are there already.
///
/// gptq: codes by round_with_feedback(). coordinate-descent: those, improved by coordinate_descent() until it gains
/// little.
/// codebook_iterations: as many rounds of refine_palettes() after that. All of it under H with its damping.
/// output_hessian: h_out (out, out), else empty: the same for tr(H_O Δ H Δᵀ), round_with_coupled_feedback() and
/// coupled_descent(), H_O damped as H is and by kOutputDamping.
/// `sparse`, if any, are the weights that are kept beside the codes; they get the values that are best with them
/// (SparseRounding).
SolverFigures solve_palette_codes(const Matrix<float>& w, const Matrix<float>& h, const Matrix<float>& h_out,
                                  const TensorSettings& settings, DType palette_dtype, SparseValues& sparse,
                                  ScaledPalettization& fitted);

/// (in): 1 / [(H + damping)⁻¹]_jj, what an error of input j costs when all others make up for it as far as they can
/// (the optimal brain surgeon's). An input that says nothing costs 0. Cost: that of factor_hessian().
std::vector<double> compensated_costs(const Matrix<float>& h, const TensorSettings& settings);

/// The same for a windowed palette, whose palette and scales are in `weight`; without outliers.
SolverFigures solve_window_codes(const Matrix<float>& w, const Matrix<float>& h, const Matrix<float>& h_out,
                                 const TensorSettings& settings, DType palette_dtype, WindowedWeight& weight);

/// The same on uniform grids: the codes on those of `rounded`, or, without static_groups, grids as error feedback
/// finds them.
SolverFigures solve_block_codes(const Matrix<float>& w, const Matrix<float>& h, const Matrix<float>& h_out,
                                const TensorSettings& settings, const BlockRoundingOptions& grid,
                                BlockRounding& rounded);

/// The same on a palette that blocks scale: codes, and without static_groups scales as error feedback finds them.
SolverFigures solve_block_palette_codes(const Matrix<float>& w, const Matrix<float>& h, const Matrix<float>& h_out,
                                        const TensorSettings& settings, const BlockPaletteOptions& options,
                                        BlockPaletteRounding& rounded);

}  // namespace nibble::quant
