#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// An MLP of squared ReLUs without a gate.
Architecture parse_arcee(const FamilyConfig& config) {
  LlamaLike like(config, {.max_positions = 4096, .epsilon = 1e-5});
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.mlp_bias = config.boolean_or("mlp_bias", false);
  like.gated = false;
  like.activation = config.activation("hidden_act", "relu2");
  Architecture a = like.build();
  a.attention_bias_key = "attention_bias";
  a.mlp_bias_key = "mlp_bias";
  return a;
}

}  // namespace nibble::model
