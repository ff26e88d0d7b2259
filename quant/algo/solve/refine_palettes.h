#pragma once

#include <cstddef>
#include <vector>

#include "core/matrix/dtype.h"
#include "core/matrix/matrix_view.h"
#include "quant/algo/palettes/palette_weight.h"
#include "quant/algo/solve/coordinate_descent.h"
#include "quant/algo/solve/hessian.h"

namespace nibble::quant {

/// Settings of refine_palettes().
struct RefineOptions {
  std::size_t iterations = 2;
  std::size_t sweeps = kMostSweeps;   ///< of coordinate_descent() or coupled_descent() per iteration, at most; 0 = none
  double least_gain = kLeastGain;     ///< of a sweep
  bool scales = false;                ///< update row scales as well
  DType palette_dtype = DType::kF16;  ///< kF16, kF32 or kI8
};

/// Losses of refine_palettes(): of the start, after each iteration, and after the last update.
using RefineHistory = std::vector<double>;

/// Alternates palettes (and scales) under H with codes, which are chosen anew by round_with_feedback() where `feedback`
/// is given and then improved by coordinate descent, at most `options.sweeps` sweeps; ends with an update of the
/// palettes, each until a step of the conjugate gradients gains less than a thousandth of all before; earlier where an
/// entry would not be finite in its type. Leaves the best of all these, the start included, in `weight`. With `h_out`
/// (out, out) all of it is for tr(H_O Δ H Δᵀ), and there is no feedback; `slopes` are coupled_slopes() of the errors at
/// the start, if they are known. Cost, memory: those of update_palettes(), update_scales() and the descent for each
/// round; with `h_out` of each round what its steps and sweeps take and m·n² + 1.5 m²·n multiply-adds (coupled_fit.h).
template <class Code>
RefineHistory refine_palettes(MatrixView<const float> w, MatrixView<const float> h, const HessianFactor* feedback,
                              const RefineOptions& options, BasicPaletteWeight<Code>& weight,
                              MatrixView<const float> h_out = {}, Matrix<float> slopes = {});

}  // namespace nibble::quant
