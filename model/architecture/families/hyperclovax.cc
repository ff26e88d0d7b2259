#include <cmath>

#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Granite with norms behind attention and MLP as well, whose logits are multiplied where Granite's are divided.
Architecture parse_hyperclovax(const FamilyConfig& config) {
  LlamaLike like(config);
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.mlp_bias = config.boolean_or("mlp_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  set_granite_multipliers(a, config);
  a.head.scale = config.number_or("logits_scaling", 1.0, 0.0, 1e6);
  const bool post_norms = config.boolean_or("use_post_norm", true), scaled = config.has("attention_multiplier");
  for (std::size_t i = 0; i < like.layers; ++i) {
    BlockSpec& block = a.blocks[i];
    if (!scaled) block.attention.scale = 1.0 / std::sqrt(static_cast<double>(like.head_dim));
    if (!post_norms) continue;
    const std::string prefix = LlamaLike::block_prefix(i);
    block.attention_post_norm = like.norm_of(Role::kAttentionPostNorm, i, prefix + "post_norm1", like.hidden);
    block.mlp_post_norm = like.norm_of(Role::kMlpPostNorm, i, prefix + "post_norm2", like.hidden);
  }
  a.attention_bias_key = "attention_bias";
  a.mlp_bias_key = "mlp_bias";
  return a;
}

}  // namespace nibble::model
