#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

namespace {

// no_rope_layers has 1 for a block that turns and 0 for one that does not; otherwise every n-th does not.
std::vector<bool> turning_blocks(const FamilyConfig& config, std::size_t layers) {
  const std::size_t every = config.integer_or("no_rope_layer_interval", 4, 1, kMaxLayers);
  std::vector<bool> turns(layers);
  if (config.has("no_rope_layers")) {
    const std::vector<double> list = config.numbers("no_rope_layers", layers);
    for (std::size_t i = 0; i < layers; ++i) turns[i] = list[i] != 0.0;
  } else {
    for (std::size_t i = 0; i < layers; ++i) turns[i] = (i + 1) % every != 0;
  }
  return turns;
}

}  // namespace

Architecture parse_smollm3(const FamilyConfig& config) {
  LlamaLike like(config, {.kv_heads = 4, .max_positions = 32768, .tied = true, .rotary = {.base = 2000000.0}});
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.mlp_bias = config.boolean_or("mlp_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  const std::vector<bool> turns = turning_blocks(config, like.layers);
  for (std::size_t i = 0; i < like.layers; ++i)
    if (!turns[i]) a.blocks[i].attention.rotary.reset();
  const std::size_t window = config.boolean_or("use_sliding_window", false) ? config.window(0) : 0;
  config.mark("sliding_window");
  config.mark("max_window_layers");  // of another family; nothing reads it
  config.set_windows(a, config.windowed_blocks(like.layers, [&](std::size_t i) { return window > 0 && !turns[i]; }),
                     window);
  a.attention_bias_key = "attention_bias";
  a.mlp_bias_key = "mlp_bias";
  return a;
}

}  // namespace nibble::model
