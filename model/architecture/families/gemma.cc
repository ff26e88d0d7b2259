#include <cmath>

#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Gains of 1 + w, embeddings times the root of the width, a gated MLP with the tanh GELU.
LlamaLike gemma_like(const FamilyConfig& config, const LlamaDefaults& defaults) {
  LlamaLike like(config, defaults);
  like.gain_offset = 1.0;
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  config.require_boolean("use_bidirectional_attention", false);
  return like;
}

Architecture parse_gemma(const FamilyConfig& config) {
  LlamaLike like = gemma_like(config, {.kv_heads = 16, .head_dim = 256, .max_positions = 8192, .tied = true});
  // The first files say hidden_act "gelu" and mean the tanh; hidden_activation came to say so.
  const bool legacy = config.text_or("hidden_act", "gelu_pytorch_tanh") == "gelu";
  like.activation = legacy ? Activation::kGeluTanh : config.activation("hidden_act", "gelu_pytorch_tanh");
  if (config.has("hidden_activation")) like.activation = config.activation("hidden_activation", "");
  Architecture a = like.build();
  a.embedding_scale = std::sqrt(static_cast<double>(like.hidden));
  a.attention_bias_key = "attention_bias";
  return a;
}

}  // namespace nibble::model
