#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

void set_mixtral_experts(Architecture& architecture, const FamilyConfig& config, const LlamaLike& like,
                         std::size_t default_count, std::size_t default_active) {
  const std::size_t count = config.integer_of_or({"num_local_experts", "num_experts"}, default_count, 1, kMaxExperts);
  config.require_reasonable("experts", count, like.layers);
  const std::size_t active = config.active_experts(count, default_active);
  for (std::size_t i = 0; i < like.layers; ++i) {
    const std::string prefix = LlamaLike::block_prefix(i) + "block_sparse_moe.";
    BlockSpec& block = architecture.blocks[i];
    block.mlp.reset();
    block.experts = mixture(i, prefix + "gate", like.hidden, count, active, [&](std::size_t e) {
      const std::string module = fmt::format("{}experts.{}.", prefix, e);
      MlpSpec mlp;
      mlp.activation = like.activation;
      mlp.gate = linear(Role::kGate, i, module + "w1", like.intermediate, like.hidden);
      mlp.up = linear(Role::kUp, i, module + "w3", like.intermediate, like.hidden);
      mlp.down = linear(Role::kDown, i, module + "w2", like.hidden, like.intermediate);
      return mlp;
    });
    block.experts->renormalise = true;
  }
}

Architecture parse_mixtral(const FamilyConfig& config) {
  LlamaLike like(config, {.kv_heads = 8, .max_positions = 131072, .epsilon = 1e-5, .rotary = {.base = 1000000.0}});
  like.activation = config.activation("hidden_act", "silu");
  const std::size_t window = config.window(0);
  Architecture a = like.build();
  set_mixtral_experts(a, config, like, 8, 2);
  for (BlockSpec& block : a.blocks) block.attention.window = window;
  return a;
}

}  // namespace nibble::model
