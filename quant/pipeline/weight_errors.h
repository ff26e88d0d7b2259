#pragma once

#include "quant/pipeline/quantize_tensor.h"

namespace nibble::quant {

/// Sets the errors of `made`, and its bias_correction if `shifting`, from the weight w and what it decodes to.
/// Cost: decoding; with a Hessian two products (out, in) · (in, in). Memory: 64 decoded rows, twice.
void measure_errors(const Matrix<float>& w, const WeightSource& decoded, const WeightStatistics& statistics,
                    bool shifting, WeightParts& made);

}  // namespace nibble::quant
