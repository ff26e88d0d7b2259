#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Norms before and after both halves of a block, half of each head turned pair by pair, gate and up in one matrix.
Architecture parse_glm4(const FamilyConfig& config) {
  LlamaLike like(
      config,
      {.kv_heads = 2, .head_dim = 128, .max_positions = 131072, .epsilon = 1.5625e-07, .rotary = {.partial = 0.5}});
  like.attention_bias = config.boolean_or("attention_bias", true);
  like.activation = config.activation("hidden_act", "silu");
  like.rotary.interleaved = true;
  Architecture a = like.build();
  for (std::size_t i = 0; i < like.layers; ++i) {
    const std::string prefix = LlamaLike::block_prefix(i);
    BlockSpec& block = a.blocks[i];
    block.attention_post_norm =
        like.norm_of(Role::kAttentionPostNorm, i, prefix + "post_self_attn_layernorm", like.hidden);
    block.mlp_post_norm = like.norm_of(Role::kMlpPostNorm, i, prefix + "post_mlp_layernorm", like.hidden);
    block.mlp = like.halved_mlp_of(i, prefix + "mlp.", like.intermediate);
  }
  return a;
}

}  // namespace nibble::model
