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
  // What a converter writes beside norm_eps, or in its place; only the latter is read.
  const double epsilon = config.number_or("norm_eps", 1e-5, 0.0, 1.0);
  NIBBLE_REQUIRE(config.number_or("layer_norm_eps", epsilon, 0.0, 1.0) == epsilon, FormatError,
                 "{}: 'layer_norm_eps': expected norm_eps, {}, which is what is computed, or no such key",
                 config.what(), epsilon);
  Architecture a = like.build();
  a.attention_bias_key = "attention_bias";
  a.mlp_bias_key = "mlp_bias";
  return a;
}

}  // namespace nibble::model
