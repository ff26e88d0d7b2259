#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Norms over each head's q and k; windowed blocks turn by a base of their own.
Architecture parse_gemma3_text(const FamilyConfig& config) {
  LlamaLike like = gemma_like(
      config, {.kv_heads = 4, .head_dim = 256, .max_positions = 131072, .tied = true, .by_layer_type = true});
  Architecture a = build_gemma2(config, like, 0.0, 0.0);
  like.set_qk_norms(a, false);
  const std::size_t saved = config.integer_or("_sliding_window_pattern", 6, 1, kMaxLayers);
  const std::size_t pattern = config.integer_or("sliding_window_pattern", saved, 1, kMaxLayers);
  const auto windowed = config.windowed_blocks(like.layers, [&](std::size_t i) { return (i + 1) % pattern != 0; });
  config.set_windows(a, windowed, config.window(4096));
  const auto rotary =
      config.rotary_by_layer_type(like.head_dim, like.max_positions, 1000000.0, 10000.0, "rope_local_base_freq");
  for (std::size_t i = 0; i < like.layers; ++i)
    a.blocks[i].attention.rotary = windowed[i] ? rotary.sliding : rotary.full;
  return a;
}

}  // namespace nibble::model
