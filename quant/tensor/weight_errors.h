#pragma once

#include <vector>

#include "quant/tensor/error_kernels.h"
#include "quant/tensor/weight_parts.h"

namespace nibble::quant {

/// The errors of rows of a weight: rows may come in slices.
struct WeightErrors {
  std::vector<error_kernels::Squares> rows;  ///< of the weight: added up at the end, so that slices change no bit
  double fisher = 0.0;                       ///< sum of F (W - What)²
  double output_error = 0.0, output = 0.0;   ///< tr((W - What) H (W - What)ᵀ), tr(W H Wᵀ)

  void add(const WeightErrors& other);  ///< of the rows that follow
  /// Sets the errors of `made` that `statistics` allow.
  void report(const WeightStatistics& statistics, WeightParts& made) const;
};

/// Adds the errors of w, rows of a weight, and what they decode to; with `shifting` their bias corrections to
/// `bias_correction`. `statistics.fisher`, where there is one, is of these rows.
/// Cost: decoding; with a Hessian two products (out, in) · (in, in). Memory: 64 decoded rows, twice; of plain errors a
/// few.
void add_errors(const Matrix<float>& w, const WeightSource& decoded, const WeightStatistics& statistics, bool shifting,
                WeightErrors& errors, std::vector<float>& bias_correction);

}  // namespace nibble::quant
