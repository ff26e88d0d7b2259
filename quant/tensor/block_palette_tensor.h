#pragma once

#include <string>

#include "core/matrix/matrix_view.h"
#include "quant/format/quantized_tensor.h"
#include "quant/recipe/settings.h"
#include "quant/tensor/weight_parts.h"

namespace nibble::quant {

/// `format: block-palette` for a finite weight w (out, in): palette, scales and codes, the codes nearest or solved for.
/// Sets `made`'s figures of the method. Throws NumericalError as the methods do.
QuantizedTensor block_palette_tensor(const std::string& name, const Matrix<float>& w, const TensorSettings& settings,
                                     const WeightStatistics& statistics, WeightParts& made);

}  // namespace nibble::quant
