#pragma once

#include <string>
#include <vector>

#include "core/linear_op.h"
#include "quant/format/quantized_tensor.h"
#include "quant/pipeline/settings.h"

namespace nibble::quant {

/// What is stored for one weight, and how well it came out.
struct WeightParts {
  std::vector<TensorPart> parts;  ///< of a QuantizedTensor, or for float16 the one part "weight", (out, in) F16
  double relative_error = 0.0;    ///< ||W - What||_F / ||W||_F, What as decoded; 0 for W = 0
  double optimality_gap = 0.0;    ///< TensorResult::optimality_gap
};

/// Decodes the weight `source` (out, in) and quantizes it as `settings` say, which must need no calibration (plan.h).
/// Throws NumericalError naming the first NaN or infinite weight, or a scale or palette entry that its type cannot
/// hold. Memory: 5 bytes per weight, and what the method needs.
WeightParts quantize_tensor(const std::string& name, const WeightSource& source, const TensorSettings& settings);

}  // namespace nibble::quant
