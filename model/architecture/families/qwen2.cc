#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Biases on q, k and v; windows in the later blocks where use_sliding_window says so.
Architecture parse_qwen2(const FamilyConfig& config) {
  LlamaLike like(config, {.kv_heads = 32, .max_positions = 32768});
  like.attention_bias = true;
  like.activation = config.activation("hidden_act", "silu");
  config.require_boolean("use_mrope", false);
  config.mark(
      "dual_chunk_attention_config");  // another program's, for texts beyond one chunk; transformers computes none
  Architecture a = like.build();
  config.set_windows(a, qwen_windowed_blocks(config, like.layers), config.window(4096));
  return a;
}

std::vector<bool> qwen_windowed_blocks(const FamilyConfig& config, std::size_t layers) {
  const bool any = config.boolean_or("use_sliding_window", false) && config.window(4096) > 0;
  const std::size_t first = config.integer_or("max_window_layers", 28, 0, kMaxLayers);
  return config.windowed_blocks(layers, [&](std::size_t i) { return any && i >= first; });
}

}  // namespace nibble::model
