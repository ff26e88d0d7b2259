#pragma once

#include <string>

#include "core/matrix/linear_op.h"
#include "core/matrix/matrix_view.h"
#include "quant/algo/kmeans/weighted_values.h"
#include "quant/recipe/settings.h"
#include "quant/tensor/weight_parts.h"

namespace nibble::quant {

/// Rows [begin, end) of a weight in `w`, which keeps its memory where its shape is right. Throws NumericalError naming
/// the first NaN or infinite one.
void decode_finite(const std::string& name, const WeightSource& source, std::size_t begin, std::size_t end,
                   Matrix<float>& w);

/// All of a weight with its sensitivities, a few rows at a time: decoded anew in each walk. Throws as decode_finite().
class SourceValues final : public WeightedValues {
 public:
  /// `weighting`: none or one of those of inputs, which `statistics` hold. Name and source must outlive it.
  SourceValues(const std::string& name, const WeightSource& source, std::size_t rows_at_a_time, Weighting weighting,
               const WeightStatistics& statistics);
  std::size_t size() const override { return source_.rows() * source_.cols(); }
  void walk(const Visit& visit) const override;

 private:
  const std::string& name_;
  const WeightSource& source_;
  std::size_t rows_at_a_time_;
  Matrix<float> weights_;  ///< of that many rows, or empty
};

}  // namespace nibble::quant
