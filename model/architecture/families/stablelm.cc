#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

namespace {

// A gain per head, each in a tensor of its own.
NormSpec norm_of_own_tensors(const LlamaLike& like, Role role, std::size_t block, const std::string& module,
                             std::size_t heads) {
  NormSpec spec = plain_norm(NormSpec::Kind::kLayer, role, block, like.head_dim, like.epsilon);
  spec.module = module;
  for (std::size_t h = 0; h < heads; ++h)
    spec.group_gains.push_back(whole_vector(fmt::format("{}.norms.{}.weight", module, h), like.head_dim));
  return spec;
}

}  // namespace

Architecture parse_stablelm(const FamilyConfig& config) {
  LlamaLike like(config, {.kv_heads = 32,
                          .max_positions = 4096,
                          .epsilon_key = "layer_norm_eps",
                          .epsilon = 1e-5,
                          .rotary = {.partial = 0.25}});
  like.norm_kind = NormSpec::Kind::kLayer;
  like.norm_bias = true;
  like.attention_bias = config.boolean_or("use_qkv_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  const bool parallel = config.boolean_or("use_parallel_residual", false);
  const bool normed = config.boolean_or("qk_layernorm", false);
  if (normed) config.require_reasonable("heads with norms of their own", like.heads, like.layers);
  for (std::size_t i = 0; i < like.layers; ++i) {
    BlockSpec& block = a.blocks[i];
    const std::string module = LlamaLike::block_prefix(i) + "self_attn.";
    if (parallel) {
      block.residual = BlockSpec::Residual::kParallel;
      block.mlp_norm.reset();
    }
    if (!normed) continue;
    block.attention.q_norm = norm_of_own_tensors(like, Role::kQNorm, i, module + "q_layernorm", like.heads);
    block.attention.k_norm = norm_of_own_tensors(like, Role::kKNorm, i, module + "k_layernorm", like.kv_heads);
  }
  return a;
}

}  // namespace nibble::model
