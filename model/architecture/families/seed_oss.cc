#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Biases on q, k and v, on o by a key of its own.
Architecture parse_seed_oss(const FamilyConfig& config) {
  LlamaLike like(config, {.kv_heads = 8, .head_dim = 128, .max_positions = 524288});
  like.attention_bias = config.boolean_or("attention_bias", true);
  like.output_bias = config.boolean_or("attention_out_bias", false);
  like.mlp_bias = config.boolean_or("mlp_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  a.attention_bias_key = "attention_bias", a.output_bias_has_key = false;
  a.mlp_bias_key = "mlp_bias";
  return a;
}

}  // namespace nibble::model
