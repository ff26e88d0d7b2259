#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Mistral with YaRN, and queries that grow beyond the original context. A window is every block's.
Architecture parse_ministral3(const FamilyConfig& config) {
  const char* const rope = config.has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  const JsonFields settings = config.object(rope);
  LlamaLike like(
      config,
      {.kv_heads = 8, .head_dim = 128, .max_positions = 262144, .epsilon = 1e-5, .rotary = {.query_growth = true}});
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  const QueryGrowth growth{.by = settings.number("llama_4_scaling_beta", -1.0, 1e3),
                           .from = settings.integer("original_max_position_embeddings", 1, kMaxPositions)};
  for (BlockSpec& block : a.blocks) block.attention.growth = growth;
  config.set_windows(a, std::vector<bool>(like.layers, config.has("sliding_window")), config.window(0));
  return a;
}

}  // namespace nibble::model
