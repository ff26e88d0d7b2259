#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "quant/job/plan/plan.h"
#include "quant/job/plan/result.h"
#include "quant/job/shards/shard.h"

namespace nibble::quant {

/// Streams shards (one for each of plan.items, in their order), biases and the plan's copies into one safetensors file,
/// in name order, and adds up the figures. Throws FormatError, NumericalError (a value too large for float16).
QuantizeResult assemble(const Plan& plan, const std::vector<Shard>& shards, const model::Checkpoint& checkpoint,
                        const std::filesystem::path& file);

/// What is reported of a quantization: quantization.json, and what `nibble quantize --json` prints besides.
nlohmann::ordered_json report_json(const QuantizeResult& result);

}  // namespace nibble::quant
