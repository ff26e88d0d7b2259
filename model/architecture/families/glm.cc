#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Half of each head turned pair by pair, gate and up in one matrix.
Architecture parse_glm(const FamilyConfig& config) {
  LlamaLike like(
      config,
      {.kv_heads = 2, .head_dim = 128, .max_positions = 131072, .epsilon = 1.5625e-07, .rotary = {.partial = 0.5}});
  like.attention_bias = config.boolean_or("attention_bias", true);
  like.activation = config.activation("hidden_act", "silu");
  like.rotary.interleaved = true;
  Architecture a = like.build();
  for (std::size_t i = 0; i < like.layers; ++i)
    a.blocks[i].mlp = like.halved_mlp_of(i, LlamaLike::block_prefix(i) + "mlp.", like.intermediate);
  a.attention_bias_key = "attention_bias", a.output_bias_has_key = false;
  return a;
}

}  // namespace nibble::model
