#pragma once

#include <string>

#include "core/matrix/linear_op.h"
#include "quant/recipe/settings.h"
#include "quant/tensor/row_slices.h"
#include "quant/tensor/weight_parts.h"

namespace nibble::quant {

/// Decodes the weight `source` (out, in) and quantizes it as `settings` say, which make_plan() found available, and for
/// which `statistics` hold what they need (Calibration::require_for()).
/// Throws NumericalError naming the first NaN or infinite weight, or a scale or palette entry that its type cannot
/// hold. Memory: what is stored, and 5 bytes per weight and what the method needs: of `slice_weights` weights where
/// rows_per_slice() allows slices, else of all.
WeightParts quantize_tensor(const std::string& name, const WeightSource& source, const TensorSettings& settings,
                            const WeightStatistics& statistics = {}, std::size_t slice_weights = kSliceWeights);

}  // namespace nibble::quant
