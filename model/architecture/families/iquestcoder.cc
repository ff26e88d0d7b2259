#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Llama; what its own program has besides no published file asks for, and transformers refuses.
Architecture parse_iquestcoder(const FamilyConfig& config) {
  LlamaLike like(config, {.kv_heads = 8, .head_dim = 128, .max_positions = 131072, .epsilon = 1e-5});
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.mlp_bias = config.boolean_or("mlp_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  NIBBLE_REQUIRE(!config.has("clip_qkv"), FormatError, "{}: 'clip_qkv': only null is computed for this model_type",
                 config.what());
  config.require_boolean("use_sliding_window", false);
  for (const char* of_windows : {"sliding_window", "max_window_layers"}) config.mark(of_windows);
  Architecture a = like.build();
  a.attention_bias_key = "attention_bias";
  a.mlp_bias_key = "mlp_bias";
  return a;
}

}  // namespace nibble::model
