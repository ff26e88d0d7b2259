#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// q, k and v in one matrix, gate and up in another.
Architecture parse_phi3(const FamilyConfig& config) {
  LlamaLike like(config, {.max_positions = 4096,
                          .epsilon = 1e-5,
                          .rotary = {.partial = 1.0, .original_context = 4096, .yarn_means_longrope = true}});
  like.activation = config.activation("hidden_act", "silu");
  config.require_boolean("attention_bias", false);
  config.require_boolean("mlp_bias", false);
  config.require_boolean("lm_head_bias", false);
  for (const char* key : {"full_attn_mod", "interpolate_factor"}) config.integer_or(key, 1, 1, 1);  // of Phi-4-mini
  Architecture a = like.build();
  const std::size_t window = config.window(0);
  for (std::size_t i = 0; i < like.layers; ++i) {
    const std::string prefix = LlamaLike::block_prefix(i);
    BlockSpec& block = a.blocks[i];
    AttentionSpec& attention = block.attention;
    const std::size_t q = attention.q_width(), kv = attention.kv_width();
    const Fused fused{.module = prefix + "self_attn.qkv_proj", .rows = q + 2 * kv, .in = like.hidden};
    attention.q = part_of(fused, Role::kQ, i, "q", RowSet::contiguous(0, q));
    attention.k = part_of(fused, Role::kK, i, "k", RowSet::contiguous(q, kv));
    attention.v = part_of(fused, Role::kV, i, "v", RowSet::contiguous(q + kv, kv));
    attention.window = window;
    block.mlp = like.halved_mlp_of(i, prefix + "mlp.", like.intermediate);
  }
  return a;
}

}  // namespace nibble::model
