#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// A norm over each head's q and k.
Architecture parse_qwen3(const FamilyConfig& config) {
  LlamaLike like(config, {.kv_heads = 32, .head_dim = 128, .max_positions = 32768});
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  like.set_qk_norms(a, false);
  config.set_windows(a, qwen_windowed_blocks(config, like.layers), config.window(4096));
  a.attention_bias_key = "attention_bias";
  return a;
}

}  // namespace nibble::model
