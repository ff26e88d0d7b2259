#include <algorithm>

#include "core/error.h"
#include "core/text/json.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

namespace {

bool lists(const FamilyConfig& config, std::string_view key, std::size_t wanted) {
  const nlohmann::json* list = config.find(key);
  if (list == nullptr) return false;
  const bool numbers = list->is_array() && std::all_of(list->begin(), list->end(), [](const nlohmann::json& value) {
                         return value.is_number_unsigned();
                       });
  NIBBLE_REQUIRE(numbers, FormatError, "{}: '{}': expected a list of layers", config.what(), key);
  return std::find(list->begin(), list->end(), wanted) != list->end();
}

}  // namespace

std::vector<bool> qwen_sparse_blocks(const FamilyConfig& config, std::size_t layers) {
  const std::size_t step = config.integer_or("decoder_sparse_step", 1, 1, kMaxLayers);
  std::vector<bool> sparse(layers);
  for (std::size_t i = 0; i < layers; ++i) sparse[i] = (i + 1) % step == 0 && !lists(config, "mlp_only_layers", i);
  return sparse;
}

void set_qwen_mixtures(Architecture& architecture, const FamilyConfig& config, const LlamaLike& like,
                       const std::vector<bool>& sparse, const QwenMixtures& defaults) {
  const std::size_t count = config.integer_of_or({"num_experts", "num_local_experts"}, defaults.count, 0, kMaxExperts);
  config.mark("num_local_experts");
  config.require_reasonable("experts", count, like.layers);
  const std::size_t width = config.integer_or("moe_intermediate_size", defaults.width, 1, kMaxWidth);
  const bool renormalise = config.boolean_or("norm_topk_prob", defaults.renormalise);
  const std::size_t active = count == 0 ? 0 : config.active_experts(count, defaults.active);
  for (std::size_t i = 0; i < like.layers; ++i) {
    if (count == 0 || !sparse[i]) continue;
    const std::string prefix = LlamaLike::block_prefix(i) + "mlp.";
    BlockSpec& block = architecture.blocks[i];
    block.mlp.reset();
    block.experts = mixture(i, prefix + "gate", like.hidden, count, active, [&](std::size_t e) {
      return like.mlp_of(i, fmt::format("{}experts.{}.", prefix, e), width);
    });
    block.experts->renormalise = renormalise;
  }
}

// A shared expert beside the mixture, behind a sigmoid gate.
Architecture parse_qwen2_moe(const FamilyConfig& config) {
  LlamaLike like(config, {.kv_heads = 16, .max_positions = 32768});
  like.attention_bias = config.boolean_or("qkv_bias", true);
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  set_qwen_mixtures(a, config, like, qwen_sparse_blocks(config, like.layers),
                    {.count = 60, .active = 4, .width = 1408});
  const std::size_t shared = config.integer_or("shared_expert_intermediate_size", 5632, 1, kMaxWidth);
  for (std::size_t i = 0; i < like.layers; ++i) {
    if (!a.blocks[i].experts) continue;
    ExpertsSpec& experts = *a.blocks[i].experts;
    const std::string prefix = LlamaLike::block_prefix(i) + "mlp.";
    experts.shared = shared_expert(like.mlp_of(i, prefix + "shared_expert.", shared));
    experts.shared_gate = linear(Role::kSharedExpertGate, i, prefix + "shared_expert_gate", 1, like.hidden);
  }
  const bool any = config.boolean_or("use_sliding_window", false);
  const std::size_t last = config.integer_or("max_window_layers", 28, 0, kMaxLayers);
  config.set_windows(a,
                     config.windowed_blocks(like.layers, [&](std::size_t i) { return any && i < last && i % 2 == 0; }),
                     config.window(4096));
  a.attention_bias_key = "qkv_bias", a.output_bias_has_key = false;
  return a;
}

}  // namespace nibble::model
