#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

namespace {

// A gain per head, all in one tensor (heads, head_dim).
NormSpec norm_of_one_tensor(const LlamaLike& like, Role role, std::size_t block, const std::string& module,
                            std::size_t heads) {
  NormSpec spec = plain_norm(NormSpec::Kind::kLayer, role, block, like.head_dim, like.epsilon);
  spec.module = module;
  for (std::size_t h = 0; h < heads; ++h) {
    spec.group_gains.push_back(whole_vector(module + ".weight", like.head_dim));
    spec.group_gains.back().slices = heads, spec.group_gains.back().slice = h;
  }
  return spec;
}

}  // namespace

// Attention and MLP side by side behind one LayerNorm without bias; heads turn pair by pair; logits are scaled.
Architecture parse_cohere(const FamilyConfig& config) {
  LlamaLike like(config, {.max_positions = 8192,
                          .epsilon_key = "layer_norm_eps",
                          .epsilon = 1e-5,
                          .tied = true,
                          .rotary = {.base = 500000.0}});
  like.norm_kind = NormSpec::Kind::kLayer;
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  like.rotary.interleaved = true;
  Architecture a = like.build();
  const bool normed = config.boolean_or("use_qk_norm", false);
  if (normed) config.require_reasonable("heads with norms of their own", like.heads, like.layers);
  for (std::size_t i = 0; i < like.layers; ++i) {
    BlockSpec& block = a.blocks[i];
    block.residual = BlockSpec::Residual::kParallel;
    block.mlp_norm.reset();
    if (!normed) continue;
    const std::string module = LlamaLike::block_prefix(i) + "self_attn.";
    block.attention.q_norm = norm_of_one_tensor(like, Role::kQNorm, i, module + "q_norm", like.heads);
    block.attention.k_norm = norm_of_one_tensor(like, Role::kKNorm, i, module + "k_norm", like.kv_heads);
  }
  a.head.scale = config.number_or("logit_scale", 0.0625, 0.0, 1e6);
  a.attention_bias_key = "attention_bias";
  return a;
}

}  // namespace nibble::model
