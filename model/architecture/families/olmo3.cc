#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// The second generation with windows in three of four blocks, which rope scaling leaves alone.
Architecture parse_olmo3(const FamilyConfig& config) {
  LlamaLike like(config, {.epsilon = 1e-5, .by_layer_type = true});
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  like.set_post_norms_only(a);
  like.set_qk_norms(a, true);
  const auto windowed = config.windowed_blocks(like.layers, [](std::size_t i) { return (i + 1) % 4 != 0; });
  config.set_windows(a, windowed, config.window(4096));
  constexpr double kBase = 500000.0;
  const auto rotary = config.rotary_by_layer_type(like.head_dim, like.max_positions, kBase, kBase, "rope_theta");
  for (std::size_t i = 0; i < like.layers; ++i)
    a.blocks[i].attention.rotary = windowed[i] ? rotary.sliding : rotary.full;
  a.attention_bias_key = "attention_bias";
  return a;
}

}  // namespace nibble::model
