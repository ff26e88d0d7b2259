#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Qwen3's attention, DeepSeek's mixtures; windows behind block max_window_layers.
Architecture parse_dots1(const FamilyConfig& config) {
  LlamaLike like(config, {.kv_heads = 32});
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  like.set_qk_norms(a, false);
  set_deepseek_mixtures(a, config, like, {});
  const std::size_t window = config.window(4096), first = config.integer_or("max_window_layers", 62, 0, kMaxLayers);
  config.set_windows(a, config.windowed_blocks(like.layers, [&](std::size_t i) { return window > 0 && i >= first; }),
                     window);
  a.attention_bias_key = "attention_bias";
  return a;
}

}  // namespace nibble::model
