#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

namespace {

// A gain per head, all in one tensor (heads, head_dim).
NormSpec norm_of_one_tensor(Role role, std::size_t block, const std::string& module, std::size_t heads,
                            std::size_t head_dim, double epsilon) {
  NormSpec spec = plain_norm(NormSpec::Kind::kLayer, role, block, head_dim, epsilon);
  spec.module = module;
  for (std::size_t h = 0; h < heads; ++h) {
    spec.group_gains.push_back(whole_vector(module + ".weight", head_dim));
    spec.group_gains.back().slices = heads, spec.group_gains.back().slice = h;
  }
  return spec;
}

}  // namespace

// Attention and MLP side by side behind one LayerNorm without bias; heads turn pair by pair; logits are scaled.
Architecture build_cohere(const FamilyConfig& config, const RotaryDefaults& rotary) {
  LlamaLike like(
      config,
      {.max_positions = 8192, .epsilon_key = "layer_norm_eps", .epsilon = 1e-5, .tied = true, .rotary = rotary});
  like.norm_kind = NormSpec::Kind::kLayer;
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  like.rotary.interleaved = true;
  Architecture a = like.build();
  for (BlockSpec& block : a.blocks) {
    block.residual = BlockSpec::Residual::kParallel;
    block.mlp_norm.reset();
  }
  a.head.scale = config.number_or("logit_scale", 0.0625, 0.0, 1e6);
  a.attention_bias_key = "attention_bias";
  return a;
}

Architecture parse_cohere(const FamilyConfig& config) {
  Architecture a = build_cohere(config, {.base = 500000.0});
  if (!config.boolean_or("use_qk_norm", false)) return a;
  config.require_reasonable("heads with norms of their own", a.blocks[0].attention.heads, a.blocks.size());
  for (std::size_t i = 0; i < a.blocks.size(); ++i) {
    AttentionSpec& attention = a.blocks[i].attention;
    const std::string module = LlamaLike::block_prefix(i) + "self_attn.";
    const auto norm = [&](Role role, const char* name, std::size_t heads) {
      return norm_of_one_tensor(role, i, module + name, heads, attention.head_dim, a.blocks[i].attention_norm->epsilon);
    };
    attention.q_norm = norm(Role::kQNorm, "q_norm", attention.heads);
    attention.k_norm = norm(Role::kKNorm, "k_norm", attention.kv_heads);
  }
  return a;
}

}  // namespace nibble::model
