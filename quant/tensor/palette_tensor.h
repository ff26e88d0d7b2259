#pragma once

#include <string>

#include "core/matrix_view.h"
#include "quant/format/quantized_tensor.h"
#include "quant/recipe/settings.h"
#include "quant/tensor/weight_parts.h"

namespace nibble::quant {

/// The weights F of squared errors (out, in) for w, as the recipe's `weighting` says; empty for none.
Matrix<float> sensitivity_weights(const Matrix<float>& w, Weighting weighting, const WeightStatistics& statistics);

/// `format: palette` for a finite weight w (out, in): outliers set apart, palettes (of scalars, with or without row
/// scales, of vectors, or windowed) fitted to the rest, codes chosen or solved for. Sets `made`'s figures of the
/// method. Throws NumericalError as the methods do.
QuantizedTensor palette_tensor(const std::string& name, const Matrix<float>& w, const TensorSettings& settings,
                               const WeightStatistics& statistics, WeightParts& made);

}  // namespace nibble::quant
