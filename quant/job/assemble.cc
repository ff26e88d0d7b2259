#include "quant/job/assemble.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <variant>

#include "core/text/json.h"
#include "quant/job/network/shifted_bias.h"
#include "quant/job/network/tuning.h"
#include "quant/job/shards/copy_tensor.h"

namespace nibble::quant {
namespace {

using Piece = std::variant<const Shard*, const CopyItem*, const BiasItem*>;

std::vector<model::TensorDeclaration> declarations_of(const std::map<std::string, Piece>& pieces) {
  std::vector<model::TensorDeclaration> declarations;
  for (const auto& [name, piece] : pieces) {
    if (const auto* shard = std::get_if<const Shard*>(&piece)) {
      declarations.insert(declarations.end(), (*shard)->tensors.begin(), (*shard)->tensors.end());
    } else if (const auto* bias = std::get_if<const BiasItem*>(&piece)) {
      declarations.push_back({name, (*bias)->dtype, (*bias)->shape});
    } else {
      declarations.push_back(declaration(*std::get<const CopyItem*>(piece)));
    }
  }
  return declarations;
}

void append_bias(const BiasItem& bias, const Plan& plan, const std::vector<Shard>& shards,
                 const model::Checkpoint& checkpoint, model::SafetensorsWriter& writer) {
  const std::vector<float> values = shifted_bias(bias, plan, shards, checkpoint);
  if (bias.dtype == DType::kF32) return writer.write(std::as_bytes(std::span(values)));
  std::vector<std::uint16_t> halves(bias.size);
  convert_to_f16(values, halves.data());
  writer.write(std::as_bytes(std::span(halves)));
}

// Results by their place in the checkpoint, and which of them bits_per_weight is about.
struct Results {
  std::map<std::size_t, TensorResult> in_order;
  std::uint64_t block_bits = 0, block_weights = 0;

  void add(const WeightIdentity& identity, const TensorResult& result) {
    in_order[identity.order] = result;
    if (!identity.block_linear) return;
    block_bits += result.stored_bits;
    block_weights += result.weights;
  }
};

}  // namespace

QuantizeResult assemble(const Plan& plan, const std::vector<Shard>& shards, const model::Checkpoint& checkpoint,
                        const std::filesystem::path& file) {
  std::map<std::string, Piece> pieces;
  for (const Shard& shard : shards) pieces[shard.result.name] = &shard;
  for (const CopyItem& copy : plan.copies) pieces[copy.name] = &copy;
  for (const BiasItem& bias : plan.biases) pieces[bias.name] = &bias;
  const auto declarations = declarations_of(pieces);
  QuantizeResult result;
  for (const auto& tensor : declarations) {
    std::uint64_t bytes = dtype_size(tensor.dtype);
    for (const std::uint64_t extent : tensor.shape) bytes *= extent;
    result.tensor_bytes += bytes;
  }

  model::SafetensorsWriter writer(file, declarations, {{"format", "pt"}});
  Results results;
  for (std::size_t i = 0; i < shards.size(); ++i) results.add(plan.items[i].identity, shards[i].result);
  for (const auto& [name, piece] : pieces) {
    if (const auto* shard = std::get_if<const Shard*>(&piece)) {
      append_shard(**shard, writer);
      continue;
    }
    if (const auto* bias = std::get_if<const BiasItem*>(&piece)) {
      append_bias(**bias, plan, shards, checkpoint, writer);
      continue;
    }
    const CopyItem& copy = *std::get<const CopyItem*>(piece);
    WeightParts rounded;
    rounded.relative_error = append_copy(copy, checkpoint, writer);
    const std::uint64_t weights = copy.tensor.element_count();
    if (copy.reported)
      results.add(*copy.reported, tensor_result(copy.reported->name, Format::kFloat16, weights, weights * 16, rounded));
  }
  writer.commit();

  for (const auto& [order, tensor] : results.in_order) result.tensors.push_back(tensor);
  result.bits_per_weight = static_cast<double>(results.block_bits) / static_cast<double>(results.block_weights);
  result.parameters = plan.parameters;
  result.model_bits_per_weight = static_cast<double>(result.tensor_bytes) * 8.0 / static_cast<double>(plan.parameters);
  result.file_bytes = std::filesystem::file_size(file);
  result.unused_rules = plan.unused_rules;
  return result;
}

namespace {

nlohmann::ordered_json budget_json(const BudgetResult& budget) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const BudgetTensor& tensor : budget.tensors) {
    nlohmann::ordered_json candidates = nlohmann::ordered_json::array();
    for (const BudgetCandidate& candidate : tensor.candidates)
      candidates.push_back({{"layout", candidate.layout},
                            {"stored_bits", candidate.stored_bits},
                            {"bits_per_weight", candidate.bits_per_weight},
                            {"predicted_loss", candidate.predicted_loss},
                            {"chosen", candidate.chosen}});
    nlohmann::ordered_json row{{"name", tensor.name}, {"candidates", std::move(candidates)}};
    if (tensor.probe)
      row["probe"] = {{"layout", tensor.probe->layout},
                      {"predicted_loss", tensor.probe->predicted_loss},
                      {"divergence", tensor.probe->divergence}};
    tensors.push_back(std::move(row));
  }
  nlohmann::ordered_json json{{"limit_bits_per_weight", budget.limit_bits_per_weight},
                              {"loss_estimate", budget.loss_estimate},
                              {"predicted_loss_nats_per_token", budget.predicted_loss},
                              {"lower_bound_nats_per_token", budget.lower_bound},
                              {"exact", budget.exact}};
  if (budget.probe_windows > 0) json["probe_windows"] = budget.probe_windows;
  json["tensors"] = std::move(tensors);
  return json;
}

}  // namespace

nlohmann::ordered_json report_json(const QuantizeResult& result) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const TensorResult& tensor : result.tensors) tensors.push_back(figures_json(tensor));
  nlohmann::ordered_json scaling = nlohmann::ordered_json::array();
  for (const InputScalingResult& group : result.input_scaling)
    scaling.push_back({{"norm", group.norm},
                       {"exponent", group.exponent},
                       {"least_scale", group.least_scale},
                       {"most_scale", group.most_scale},
                       {"output_error_before", group.output_error_before},
                       {"output_error_after", group.output_error_after}});
  nlohmann::ordered_json json{{"bits_per_weight", result.bits_per_weight},
                              {"model_bits_per_weight", result.model_bits_per_weight},
                              {"parameters", result.parameters},
                              {"tensor_bytes", result.tensor_bytes},
                              {"tensors", std::move(tensors)}};
  if (!scaling.empty()) json["input_scaling"] = std::move(scaling);
  for (const RareExpert& expert : result.rare_experts)
    json["without_statistics"].push_back(
        {{"name", expert.name}, {"calibration_tokens", expert.tokens}, {"inputs", expert.inputs}});
  if (!result.unused_rules.empty()) json["unused_rules"] = result.unused_rules;
  if (result.tuning) json["tuning"] = tuning_json(*result.tuning);
  if (result.budget) json["budget"] = budget_json(*result.budget);
  return json;
}

}  // namespace nibble::quant
