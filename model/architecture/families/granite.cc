#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Multipliers of embedding, scores, residual and logits.
void set_granite_multipliers(Architecture& architecture, const FamilyConfig& config) {
  const double residual = config.number_or("residual_multiplier", 1.0, 0.0, 1e6);
  const double scale = config.number_or("attention_multiplier", 1.0, 0.0, 1e6);
  for (BlockSpec& block : architecture.blocks) {
    block.residual_multiplier = residual;
    block.attention.scale = scale;
  }
  architecture.embedding_scale = config.number_or("embedding_multiplier", 1.0, 0.0, 1e6);
  architecture.head.scale = 1.0 / config.number_or("logits_scaling", 1.0, 0.0, 1e6);
}

Architecture parse_granite(const FamilyConfig& config) {
  LlamaLike like(config);
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.mlp_bias = config.boolean_or("mlp_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  set_granite_multipliers(a, config);
  a.attention_bias_key = "attention_bias";
  a.mlp_bias_key = "mlp_bias";
  return a;
}

}  // namespace nibble::model
