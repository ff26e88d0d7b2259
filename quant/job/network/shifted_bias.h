#pragma once

#include <span>
#include <vector>

#include "quant/job/plan/plan.h"
#include "quant/job/shards/shard.h"

namespace nibble::quant {

/// The values (size) of a bias as they are stored: what it was, plus what each shifted weight of its layer adds,
/// rounded to bias.dtype. `shards` in the order of plan.items; those of bias.weights must be there. Throws
/// NumericalError for a value too large for its type, FormatError.
std::vector<float> shifted_bias(const BiasItem& bias, const Plan& plan, std::span<const Shard> shards,
                                const model::Checkpoint& checkpoint);

/// The bias that a layer computes with beside its quantized weight: its rows of the shifted one, or what it was. As for
/// shifted_bias(); `weights` are the checkpoint's.
std::vector<float> bias_beside(const model::Parameter& layer, const Plan& plan, std::span<const Shard> shards,
                               const model::Checkpoint& checkpoint, const model::WeightProvider& weights);

/// The values of one layer out of those of a whole bias tensor, which may hold several layers'.
std::vector<float> rows_of(const model::Stored& place, std::span<const float> all);

}  // namespace nibble::quant
