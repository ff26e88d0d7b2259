#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

namespace {

std::vector<bool> sparse_blocks(const FamilyConfig& config, std::size_t layers) {
  std::vector<bool> sparse(layers, true);
  if (!config.has("mlp_layer_types")) return sparse;
  const std::vector<std::string> types = config.texts("mlp_layer_types", layers);
  for (std::size_t i = 0; i < layers; ++i) {
    sparse[i] = types[i] == "sparse";
    NIBBLE_REQUIRE(sparse[i] || types[i] == "dense", FormatError,
                   "{}: 'mlp_layer_types': expected 'dense' or 'sparse', got '{}'", config.what(), types[i]);
  }
  return sparse;
}

// A layer that guesses at tokens further ahead: no part of the network, as in transformers.
void ignore_mtp_layer(Architecture& architecture, const FamilyConfig& config) {
  for (const char* key : {"num_mtp_layers", "num_nextn_predict_layers", "mtp_layer_types", "mtp_mlp_layer_types"})
    config.mark(key);
  architecture.ignored_prefixes.push_back("mtp.");
}

}  // namespace

// Qwen3's attention with windows in blocks that turn by settings of their own; mixtures in the blocks that
// mlp_layer_types names.
Architecture parse_mellum(const FamilyConfig& config) {
  LlamaLike like(config, {.kv_heads = 4, .head_dim = 128, .max_positions = 131072, .by_layer_type = true});
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  like.set_qk_norms(a, false);
  set_qwen_mixtures(a, config, like, sparse_blocks(config, like.layers),
                    {.count = 64, .active = 8, .width = 896, .renormalise = true});
  const std::vector<bool> windowed = config.windowed_blocks(like.layers, [](std::size_t) { return false; });
  config.set_windows(a, windowed, config.window(1024));
  const auto rotary = config.rotary_by_layer_type(like.head_dim, like.max_positions, 500000.0, 10000.0, "");
  for (std::size_t i = 0; i < like.layers; ++i)
    a.blocks[i].attention.rotary = windowed[i] ? rotary.sliding : rotary.full;
  ignore_mtp_layer(a, config);
  a.attention_bias_key = "attention_bias";
  return a;
}

}  // namespace nibble::model
