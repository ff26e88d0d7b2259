#include <algorithm>

#include "core/error.h"
#include "core/text/json.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

namespace {

// transformers goes by the window alone, mlx-lm by the types: they have to agree.
void require_types_like_the_window(const FamilyConfig& config, bool windowed) {
  const nlohmann::json* const types = config.find("layer_types");
  const char* const wanted = windowed ? "sliding_attention" : "full_attention";
  NIBBLE_REQUIRE(
      types == nullptr || (types->is_array() &&
                           std::ranges::all_of(*types, [&](const nlohmann::json& type) { return type == wanted; })),
      FormatError, "{}: 'layer_types': expected '{}' alone {} 'sliding_window'", config.what(), wanted,
      windowed ? "beside a" : "without");
}

}  // namespace

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
  const bool windowed = config.has("sliding_window");
  require_types_like_the_window(config, windowed);
  config.set_windows(a, std::vector<bool>(like.layers, windowed), config.window(0));
  return a;
}

}  // namespace nibble::model
