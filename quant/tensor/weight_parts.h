#pragma once

#include <optional>
#include <vector>

#include "core/matrix/matrix_view.h"
#include "quant/format/quantized_tensor.h"
#include "quant/tensor/solve_codes.h"

namespace nibble::quant {

/// What calibration says of one weight; what is not there is empty.
struct WeightStatistics {
  Matrix<double> fisher;              ///< (out, in): mean Fisher sensitivities
  std::vector<double> second_moment;  ///< (in): E[x²]
  std::vector<double> magnitude;      ///< (in): E|x|
  std::vector<double> mean_input;     ///< (in)
  Matrix<float> hessian;              ///< (in, in), of hessian_kind(): for solvers, and to measure output errors
  Matrix<float> output_hessian;       ///< (out, out): usable_output_hessian(), for settings.output_hessian
};

/// What is stored for one weight, and how well it came out.
struct WeightParts {
  std::vector<TensorPart> parts;  ///< of a QuantizedTensor, or for float16 the one part "weight", (out, in) F16
  double relative_error = 0.0;    ///< ||W - What||_F / ||W||_F, What as decoded; 0 for W = 0
  double optimality_gap = 0.0;    ///< TensorFigures::optimality_gap
  double fitted_cost = 0.0;       ///< what it is relative to, where rows may come in slices: Palettization::fitted_cost
  std::optional<double> output_error, fisher_error;  ///< as in TensorFigures
  std::optional<SolverFigures> solver;               ///< of error feedback and coordinate descent
  /// (out) (W - What) mu, with mu the mean input: what shifting adds to the bias; empty without.
  ///   x What^T + [b + mu (W - What)^T] = (x - mu) What^T + [b + mu W^T]
  /// is the published shifted-input form, with no work left for inference.
  std::vector<float> bias_correction;
};

}  // namespace nibble::quant
