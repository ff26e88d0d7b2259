#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// A window over every block where config.json has one.
Architecture parse_mistral(const FamilyConfig& config) {
  // Ministral 8B calls itself so; transformers goes by this key, too.
  if (config.has("layer_types")) {
    Architecture ministral = parse_ministral(config);
    ministral.family = "ministral";
    return ministral;
  }
  LlamaLike like(config, {.kv_heads = 8, .max_positions = 131072});
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  if (const std::size_t window = config.window(4096); window > 0)
    for (BlockSpec& block : a.blocks) block.attention.window = window;
  return a;
}

}  // namespace nibble::model
