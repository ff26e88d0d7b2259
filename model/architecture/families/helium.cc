#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Llama whose heads turn pair by pair.
Architecture parse_helium(const FamilyConfig& config) {
  LlamaLike like(
      config, {.kv_heads = 20, .head_dim = 128, .max_positions = 4096, .epsilon = 1e-8, .rotary = {.base = 100000.0}});
  NIBBLE_REQUIRE(like.heads * like.head_dim == like.hidden, FormatError,
                 "{}: expected heads that fill the width of {}, got {} of {}", config.what(), like.hidden, like.heads,
                 like.head_dim);
  like.attention_bias = config.boolean_or("attention_bias", false);
  like.mlp_bias = config.boolean_or("mlp_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  like.rotary.interleaved = true;
  Architecture a = like.build();
  a.attention_bias_key = "attention_bias", a.output_bias_has_key = false;
  a.mlp_bias_key = "mlp_bias";
  return a;
}

}  // namespace nibble::model
