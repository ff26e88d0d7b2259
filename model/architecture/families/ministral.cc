#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Mistral with windows in some blocks.
Architecture parse_ministral(const FamilyConfig& config) {
  LlamaLike like(config, {.kv_heads = 8, .max_positions = 131072});
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  const std::size_t window = config.window(4096);
  config.set_windows(a, config.windowed_blocks(like.layers, [&](std::size_t) { return window > 0; }), window);
  return a;
}

}  // namespace nibble::model
