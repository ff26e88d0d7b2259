#include "quant/tensor/solve_codes.h"

#include <utility>

#include "quant/algo/codebook_update.h"
#include "quant/algo/column_rounding.h"
#include "quant/algo/coordinate_descent.h"
#include "quant/algo/error_feedback.h"
#include "quant/algo/hessian.h"
#include "quant/algo/sparse_rounding.h"
#include "quant/algo/window_rounding.h"

namespace nibble::quant {
namespace {

HessianFactor factor_for(const Matrix<float>& h, const TensorSettings& settings) {
  return factor_hessian(h.view(), {.damping = settings.damping, .act_order = settings.act_order});
}

/// H with the factor's damping on its diagonal, for coordinate descent: H alone would be fitted to what little the
/// calibration text says of its small eigenvalues.
Matrix<float> damped(const Matrix<float>& h, const HessianFactor& factor) {
  Matrix<float> result = h;
  for (std::size_t j = 0; j < h.rows(); ++j)
    if (factor.silent[j] == 0) result(j, j) += static_cast<float>(factor.damping[j]);
  return result;
}

std::size_t sweeps_for(const TensorSettings& settings) {
  return settings.solver == Solver::kCoordinateDescent ? kMostSweeps : 0;
}

template <class Code>
Matrix<Code> solve(const Matrix<float>& w, const Matrix<float>& h, const TensorSettings& settings,
                   const HessianFactor& factor, BasicColumnRounding<Code>& rounding) {
  Matrix<Code> codes = round_with_feedback(w, factor, rounding).codes;
  if (const std::size_t sweeps = sweeps_for(settings); sweeps > 0)
    coordinate_descent(w, h, rounding, sweeps, codes, kLeastGain);
  return codes;
}

// Rounds of palettes (and scales) and codes, from the codes that are there.
template <class Code>
void refine(const Matrix<float>& w, const Matrix<float>& h, const TensorSettings& settings, DType palette_dtype,
            const HessianFactor& factor, BasicPaletteWeight<Code>& weight) {
  refine_palettes(w, h, settings.solver == Solver::kGptq ? &factor : nullptr,
                  {.iterations = settings.codebook_iterations,
                   .sweeps = sweeps_for(settings),
                   .scales = !weight.scales.empty(),
                   .palette_dtype = palette_dtype},
                  weight);
}

SolverFigures figures_of(const HessianFactor& factor) { return {factor.damping_share, factor.silent_inputs}; }

}  // namespace

SolverFigures solve_palette_codes(const Matrix<float>& w, const Matrix<float>& h, const TensorSettings& settings,
                                  DType palette_dtype, SparseValues& sparse, ScaledPalettization& fitted) {
  const HessianFactor factor = factor_for(h, settings);
  const Matrix<float> objective = damped(h, factor);
  PaletteRounding rounding(fitted.palettes, settings.effective_group_size(), fitted.scales);
  if (sparse.empty()) {
    fitted.codes = solve(w, objective, settings, factor, rounding);
  } else {
    SparseRounding with_sparse(rounding, w.cols(), sparse);
    fitted.codes = solve(w, objective, settings, factor, with_sparse);
  }
  if (settings.codebook_iterations == 0) return figures_of(factor);
  PaletteWeight weight{.palettes = std::move(fitted.palettes),
                       .group_rows = settings.effective_group_size(),
                       .scales = std::move(fitted.scales),
                       .codes = std::move(fitted.codes),
                       .sparse = std::move(sparse)};
  refine(w, objective, settings, palette_dtype, factor, weight);
  fitted.palettes = std::move(weight.palettes);
  fitted.scales = std::move(weight.scales);
  fitted.codes = std::move(weight.codes);
  sparse = std::move(weight.sparse);
  return figures_of(factor);
}

SolverFigures solve_window_codes(const Matrix<float>& w, const Matrix<float>& h, const TensorSettings& settings,
                                 DType palette_dtype, WindowedWeight& weight) {
  const HessianFactor factor = factor_for(h, settings);
  const Matrix<float> objective = damped(h, factor);
  WindowRounding rounding(weight.palettes.row(0), settings.bits, w.rows(), weight.scales);
  weight.codes = solve(w, objective, settings, factor, rounding);
  if (settings.codebook_iterations > 0) refine(w, objective, settings, palette_dtype, factor, weight);
  return figures_of(factor);
}

std::vector<double> compensated_costs(const Matrix<float>& h, const TensorSettings& settings) {
  const HessianFactor factor = factor_for(h, settings);
  std::vector<double> inverse(h.rows()), costs(h.rows());
  for (std::size_t p = 0; p < h.rows(); ++p)
    for (std::size_t q = p; q < h.rows(); ++q)
      inverse[q] += static_cast<double>(factor.upper(p, q)) * static_cast<double>(factor.upper(p, q));
  for (std::size_t p = 0; p < h.rows(); ++p) {
    const std::size_t input = factor.order[p];
    costs[input] = factor.silent[input] == 0 ? 1.0 / inverse[p] : 0.0;
  }
  return costs;
}

SolverFigures solve_block_codes(const Matrix<float>& w, const Matrix<float>& h, const TensorSettings& settings,
                                const BlockRoundingOptions& grid, BlockRounding& rounded) {
  const HessianFactor factor = factor_for(h, settings);
  const Matrix<float> objective = damped(h, factor);
  GridRounding rounding =
      settings.static_groups ? GridRounding(std::move(rounded), grid) : GridRounding(w, grid, false);
  rounded.codes = solve(w, objective, settings, factor, rounding);
  rounded.scales = rounding.scales();
  rounded.zeros = rounding.zeros();
  return figures_of(factor);
}

SolverFigures solve_block_palette_codes(const Matrix<float>& w, const Matrix<float>& h, const TensorSettings& settings,
                                        const BlockPaletteOptions& options, BlockPaletteRounding& rounded) {
  const HessianFactor factor = factor_for(h, settings);
  const Matrix<float> objective = damped(h, factor);
  BlockPaletteColumns rounding(rounded, options, settings.static_groups);
  rounded.codes = solve(w, objective, settings, factor, rounding);
  rounded.scales = rounding.scales();
  return figures_of(factor);
}

}  // namespace nibble::quant
