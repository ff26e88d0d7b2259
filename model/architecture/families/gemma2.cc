#include <cmath>

#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Norms before and after both halves of a block.
void set_gemma_norms(Architecture& architecture, const LlamaLike& like) {
  for (std::size_t i = 0; i < architecture.blocks.size(); ++i) {
    BlockSpec& block = architecture.blocks[i];
    const std::string prefix = LlamaLike::block_prefix(i);
    const std::size_t width = like.hidden;
    block.attention_post_norm = like.norm_of(Role::kAttentionPostNorm, i, prefix + "post_attention_layernorm", width);
    block.mlp_norm = like.norm_of(Role::kMlpNorm, i, prefix + "pre_feedforward_layernorm", width);
    block.mlp_post_norm = like.norm_of(Role::kMlpPostNorm, i, prefix + "post_feedforward_layernorm", width);
  }
}

// What the second and the third generation share but their defaults.
Architecture build_gemma2(const FamilyConfig& config, LlamaLike like, double attention_cap, double logit_cap) {
  like.activation = config.activation("hidden_activation", "gelu_pytorch_tanh");
  config.mark("hidden_act");  // an older spelling that nothing reads
  Architecture a = like.build();
  a.embedding_scale = std::sqrt(static_cast<double>(like.hidden));
  set_gemma_norms(a, like);
  const double scale = 1.0 / std::sqrt(config.number_or("query_pre_attn_scalar", 256.0, 0.0, 1e9));
  const double cap = config.is_null("attn_logit_softcapping")
                         ? 0.0
                         : config.number_or("attn_logit_softcapping", attention_cap, 0.0, 1e9);
  for (BlockSpec& block : a.blocks) block.attention.scale = scale, block.attention.softcap = cap;
  a.head.softcap = config.is_null("final_logit_softcapping")
                       ? 0.0
                       : config.number_or("final_logit_softcapping", logit_cap, 0.0, 1e9);
  a.attention_bias_key = "attention_bias";
  return a;
}

Architecture parse_gemma2(const FamilyConfig& config) {
  const LlamaLike like = gemma_like(config, {.kv_heads = 4, .head_dim = 256, .max_positions = 8192, .tied = true});
  Architecture a = build_gemma2(config, like, 50.0, 30.0);
  config.set_windows(a, config.windowed_blocks(like.layers, [](std::size_t i) { return i % 2 == 0; }),
                     config.window(4096));
  config.mark("sliding_window_size");  // an older spelling beside sliding_window
  return a;
}

}  // namespace nibble::model
