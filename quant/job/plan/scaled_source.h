#pragma once

#include <memory>
#include <vector>

#include "core/matrix/linear_op.h"

namespace nibble::quant {

/// Scales of a weight's inputs, shared by all who use them.
using InputScales = std::shared_ptr<const std::vector<float>>;

/// W · diag(s): the weight (out, in) for inputs divided by s (in).
std::shared_ptr<const WeightSource> scale_columns(std::shared_ptr<const WeightSource> source, InputScales scales);

/// W · diag(1/s): what such a weight is to the inputs as they were.
std::shared_ptr<const WeightSource> unscale_columns(std::shared_ptr<const WeightSource> source, InputScales scales);

}  // namespace nibble::quant
