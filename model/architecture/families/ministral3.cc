#include <algorithm>
#include <vector>

#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Mistral with YaRN, and queries that grow beyond the original context. A window is every block's.
Architecture parse_ministral3(const FamilyConfig& config) {
  const JsonFields settings = config.object(config.has("rope_scaling") ? "rope_scaling" : "rope_parameters");
  LlamaLike like(
      config,
      {.kv_heads = 8, .head_dim = 128, .max_positions = 262144, .epsilon = 1e-5, .rotary = {.query_growth = true}});
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  const QueryGrowth growth{.by = settings.number("llama_4_scaling_beta", -1.0, 1e3),
                           .from = original_context(settings, config, like.max_positions)};
  for (BlockSpec& block : a.blocks) block.attention.growth = growth;
  // transformers goes by the window alone, mlx-lm by the types: they have to agree.
  const std::size_t window = config.window(0);
  const std::vector<bool> windowed = config.windowed_blocks(like.layers, [&](std::size_t) { return window > 0; });
  NIBBLE_REQUIRE(std::ranges::all_of(windowed, [&](bool block) { return block == (window > 0); }), FormatError,
                 "{}: 'layer_types': expected '{}' alone {} 'sliding_window'", config.what(),
                 window > 0 ? "sliding_attention" : "full_attention", window > 0 ? "beside a" : "without");
  config.set_windows(a, windowed, window);
  return a;
}

}  // namespace nibble::model
