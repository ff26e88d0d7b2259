#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Llama with windows in three blocks of four. Where a file says nothing of its rotary embedding, transformers scales it
// by Llama 3's rule, which is asked for here.
Architecture parse_cwm(const FamilyConfig& config) {
  NIBBLE_REQUIRE(config.has("rope_scaling") || config.has("rope_parameters"), FormatError,
                 "{}: 'rope_parameters' is missing: expected the settings of the rotary embedding", config.what());
  LlamaLike like(
      config,
      {.kv_heads = 8, .head_dim = 128, .max_positions = 131072, .epsilon = 1e-5, .rotary = {.base = 1000000.0}});
  like.mlp_bias = config.boolean_or("mlp_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  config.set_windows(a, config.windowed_blocks(like.layers, [](std::size_t i) { return i % 4 != 0; }),
                     config.window(8192));
  a.mlp_bias_key = "mlp_bias";
  return a;
}

}  // namespace nibble::model
