#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// LayerNorms with gains of 1 + w; an MLP of squared ReLUs without a gate.
Architecture parse_nemotron(const FamilyConfig& config) {
  LlamaLike like(config,
                 {.max_positions = 4096, .epsilon_key = "norm_eps", .epsilon = 1e-5, .rotary = {.partial = 0.5}});
  like.norm_kind = NormSpec::Kind::kLayer;
  like.norm_bias = true;
  like.gain_offset = 1.0;
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.mlp_bias = config.boolean_or("mlp_bias", false);
  like.gated = false;
  like.activation = config.activation("hidden_act", "relu2");
  const std::size_t channels = config.integer_or("kv_channels", like.head_dim, 1, kMaxHeadDim);
  NIBBLE_REQUIRE(channels == like.head_dim, FormatError, "{}: 'kv_channels': expected the head_dim {}, got {}",
                 config.what(), like.head_dim, channels);
  Architecture a = like.build();
  a.attention_bias_key = "attention_bias";
  a.mlp_bias_key = "mlp_bias";
  return a;
}

}  // namespace nibble::model
