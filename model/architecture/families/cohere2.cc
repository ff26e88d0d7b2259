#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

namespace {

// What published files say of the network beside what transformers reads, which computes it in one way only.
void require_only_way(const FamilyConfig& config, bool tied) {
  config.require_one_of("position_embedding_type", {"rope_gptj"});
  config.require_one_of("order_of_interleaved_layers", {"local_attn_first"});
  config.require_boolean("use_qk_norm", false);
  config.require_boolean("use_parallel_block", true);
  config.require_boolean("use_gated_activation", true);
  config.require_boolean("use_embedding_sharing", tied);
  config.mark("use_parallel_embedding");  // how several processes share the table
}

}  // namespace

// Windows in three of four blocks; those without do not turn.
Architecture parse_cohere2(const FamilyConfig& config) {
  Architecture a = build_cohere(config, {.partial_key = "rotary_pct"});
  require_only_way(config, a.head.tied);
  const std::size_t saved = config.integer_or("_sliding_window_pattern", 4, 1, kMaxLayers);
  const std::size_t pattern = config.integer_or("sliding_window_pattern", saved, 1, kMaxLayers);
  const std::size_t other = config.integer_or("layer_switch", pattern, 1, kMaxLayers);
  NIBBLE_REQUIRE(other == pattern, FormatError,
                 "{}: 'layer_switch': expected the pattern of windows, {}, which is what is computed, got {}",
                 config.what(), pattern, other);
  const auto windowed = config.windowed_blocks(a.blocks.size(), [&](std::size_t i) { return (i + 1) % pattern != 0; });
  config.set_windows(a, windowed, config.window(4096));
  for (std::size_t i = 0; i < a.blocks.size(); ++i)
    if (!windowed[i]) a.blocks[i].attention.rotary.reset();
  return a;
}

}  // namespace nibble::model
