#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "quant/pipeline/plan.h"
#include "quant/pipeline/quantize_model.h"
#include "quant/pipeline/shard.h"

namespace nibble::quant {

/// The figures of one weight; bits per weight follow.
TensorResult tensor_result(const std::string& name, Format format, std::uint64_t weights, std::uint64_t stored_bits,
                           const WeightParts& made);

/// Streams shards (one for each of plan.items, in their order), biases and the plan's copies into one safetensors file,
/// in name order, and adds up the figures. Throws FormatError, NumericalError (a value too large for float16).
QuantizeResult assemble(const Plan& plan, const std::vector<Shard>& shards, const model::Checkpoint& checkpoint,
                        const std::filesystem::path& file);

/// A budget's table, as it is stored and printed with --json.
nlohmann::ordered_json budget_json(const BudgetResult& budget);

/// quantization.json.
std::string report_json(const QuantizeResult& result);

}  // namespace nibble::quant
