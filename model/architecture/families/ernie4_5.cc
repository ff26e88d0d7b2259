#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// The dense models: heads turn pair by pair; one key for all biases.
Architecture parse_ernie4_5(const FamilyConfig& config) {
  LlamaLike like(config, {.kv_heads = 2,
                          .head_dim = 128,
                          .max_positions = 131072,
                          .epsilon = 1e-5,
                          .tied = true,
                          .rotary = {.base = 500000.0}});
  like.attention_bias = like.output_bias = like.mlp_bias = config.boolean_or("use_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  like.rotary.interleaved = true;
  return like.build();
}

}  // namespace nibble::model
