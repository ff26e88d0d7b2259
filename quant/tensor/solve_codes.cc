#include "quant/tensor/solve_codes.h"

#include <optional>
#include <utility>

#include "quant/algo/blocks/grid_columns.h"
#include "quant/algo/palettes/palette_columns.h"
#include "quant/algo/palettes/sparse_rounding.h"
#include "quant/algo/rounding/column_rounding.h"
#include "quant/algo/solve/coordinate_descent.h"
#include "quant/algo/solve/coupled_descent.h"
#include "quant/algo/solve/coupled_feedback.h"
#include "quant/algo/solve/error_feedback.h"
#include "quant/algo/solve/hessian.h"
#include "quant/algo/solve/refine_palettes.h"
#include "quant/algo/windows/window_rounding.h"

namespace nibble::quant {

FactorOptions factor_options(const TensorSettings& settings, bool act_order) {
  return {.damping = settings.damping,
          .unit = settings.damping_by == DampingBy::kMean ? DampingUnit::kMean : DampingUnit::kOwn,
          .act_order = act_order};
}

namespace {

HessianFactor factor_for(const Matrix<float>& h, const TensorSettings& settings, bool act_order) {
  return factor_hessian(h.view(), factor_options(settings, act_order));
}

/// H with the factor's damping on its diagonal, for coordinate descent: H alone would be fitted to what little the
/// calibration text says of its small eigenvalues.
Matrix<float> damped(const Matrix<float>& h, const HessianFactor& factor) {
  Matrix<float> result = h;
  for (std::size_t j = 0; j < h.rows(); ++j)
    if (factor.silent[j] == 0) result(j, j) += static_cast<float>(factor.damping[j]);
  return result;
}

/// What codes of a weight are solved under: H and, where there is one, H_O.
struct Problem {
  Problem(const Matrix<float>& weight, const Matrix<float>& h, const Matrix<float>& h_out, const TensorSettings& given)
      : w(weight), settings(given), inputs(factor_for(h, settings, settings.act_order)), objective(damped(h, inputs)) {
    if (h_out.size() == 0) return;
    coupling = h_out;
    for (std::size_t i = 0; i < coupling.rows(); ++i) coupling(i, i) += kOutputDamping;
    // Streams of windows run down the outputs as they come.
    outputs = factor_for(coupling, settings, false);
    coupling = damped(coupling, *outputs);
  }

  SolverFigures figures() const { return {inputs.damping_share, inputs.silent_inputs}; }

  const Matrix<float>& w;
  const TensorSettings& settings;
  HessianFactor inputs;
  Matrix<float> objective;
  std::optional<HessianFactor> outputs = {};
  Matrix<float> coupling = {};
};

std::size_t sweeps_for(const Problem& problem) {
  if (problem.settings.solver != Solver::kCoordinateDescent) return 0;
  return problem.outputs ? kMostCoupledSweeps : kMostSweeps;
}

/// `slopes`: of the errors that are left, where outputs are coupled.
template <class Code>
Matrix<Code> solve(const Problem& problem, BasicColumnRounding<Code>& rounding, Matrix<float>* slopes = nullptr) {
  if (problem.outputs) {
    Matrix<Code> codes = round_with_coupled_feedback(problem.w, problem.inputs, *problem.outputs, rounding);
    auto result = coupled_descent(problem.w, problem.objective, problem.coupling, rounding, sweeps_for(problem), codes,
                                  kLeastGain);
    if (slopes != nullptr) *slopes = std::move(result.slopes);
    return codes;
  }
  Matrix<Code> codes = round_with_feedback(problem.w, problem.inputs, rounding).codes;
  if (const std::size_t sweeps = sweeps_for(problem); sweeps > 0)
    coordinate_descent(problem.w, problem.objective, rounding, sweeps, codes, kLeastGain);
  return codes;
}

// Rounds of palettes (and scales) and codes, from the codes that are there and the slopes that solve() left.
template <class Code>
void refine(const Problem& problem, DType palette_dtype, BasicPaletteWeight<Code>& weight, Matrix<float> slopes) {
  refine_palettes(problem.w, problem.objective, problem.settings.solver == Solver::kGptq ? &problem.inputs : nullptr,
                  {.iterations = problem.settings.codebook_iterations,
                   .sweeps = sweeps_for(problem),
                   .scales = !weight.scales.empty(),
                   .palette_dtype = palette_dtype},
                  weight, problem.coupling, std::move(slopes));
}

}  // namespace

SolverFigures solve_palette_codes(const Matrix<float>& w, const Matrix<float>& h, const Matrix<float>& h_out,
                                  const TensorSettings& settings, DType palette_dtype, SparseValues& sparse,
                                  ScaledPalettization& fitted) {
  const Problem problem(w, h, h_out, settings);
  PaletteRounding rounding(fitted.palettes, settings.effective_group_size(), fitted.scales);
  Matrix<float> slopes;
  if (sparse.empty()) {
    fitted.codes = solve(problem, rounding, &slopes);
  } else {
    SparseRounding with_sparse(rounding, w.cols(), sparse);
    fitted.codes = solve(problem, with_sparse, &slopes);
  }
  if (settings.codebook_iterations == 0) return problem.figures();
  PaletteWeight weight{.palettes = std::move(fitted.palettes),
                       .group_rows = settings.effective_group_size(),
                       .scales = std::move(fitted.scales),
                       .codes = std::move(fitted.codes),
                       .sparse = std::move(sparse)};
  refine(problem, palette_dtype, weight, std::move(slopes));
  fitted.palettes = std::move(weight.palettes);
  fitted.scales = std::move(weight.scales);
  fitted.codes = std::move(weight.codes);
  sparse = std::move(weight.sparse);
  return problem.figures();
}

SolverFigures solve_window_codes(const Matrix<float>& w, const Matrix<float>& h, const Matrix<float>& h_out,
                                 const TensorSettings& settings, DType palette_dtype, WindowedWeight& weight) {
  const Problem problem(w, h, h_out, settings);
  WindowRounding rounding(weight.palettes.row(0), settings.bits, w.rows(), weight.scales);
  Matrix<float> slopes;
  weight.codes = solve(problem, rounding, &slopes);
  if (settings.codebook_iterations > 0) refine(problem, palette_dtype, weight, std::move(slopes));
  return problem.figures();
}

std::vector<double> compensated_costs(const Matrix<float>& h, const TensorSettings& settings) {
  const HessianFactor factor = factor_for(h, settings, settings.act_order);
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

SolverFigures solve_block_codes(const Matrix<float>& w, const Matrix<float>& h, const Matrix<float>& h_out,
                                const TensorSettings& settings, const BlockRoundingOptions& grid,
                                BlockRounding& rounded) {
  const Problem problem(w, h, h_out, settings);
  GridRounding rounding =
      settings.static_groups ? GridRounding(std::exchange(rounded, {}), grid) : GridRounding(w, grid, false);
  rounded.codes = solve(problem, rounding);
  rounded.scales = rounding.scales();
  rounded.zeros = rounding.zeros();
  return problem.figures();
}

SolverFigures solve_block_palette_codes(const Matrix<float>& w, const Matrix<float>& h, const Matrix<float>& h_out,
                                        const TensorSettings& settings, const BlockPaletteOptions& options,
                                        BlockPaletteRounding& rounded) {
  const Problem problem(w, h, h_out, settings);
  BlockPaletteColumns rounding(rounded, options, settings.static_groups);
  rounded.codes = solve(problem, rounding);
  rounded.scales = rounding.scales();
  return problem.figures();
}

}  // namespace nibble::quant
