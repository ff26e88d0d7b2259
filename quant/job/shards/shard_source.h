#pragma once

#include <memory>

#include "core/matrix/linear_op.h"
#include "quant/job/plan/plan.h"
#include "quant/job/shards/shard.h"

namespace nibble::quant {

/// What was made of a weight, decoded where it lies in its shard, for the layer's inputs as they are (input scales
/// taken back). Throws FormatError.
std::shared_ptr<const WeightSource> shard_source(const QuantizeItem& item, const Shard& shard);

}  // namespace nibble::quant
