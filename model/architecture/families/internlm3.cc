#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Llama with other names for biases: its own program has one key for q, k and v and one for all others, transformers
// takes them equal alone.
Architecture parse_internlm3(const FamilyConfig& config) {
  LlamaLike like(config, {.kv_heads = 2, .head_dim = 128, .max_positions = 32768, .epsilon = 1e-5});
  const auto says = [&](const char* own, const char* other) {
    return config.boolean_or(own, config.boolean_or(other, false));
  };
  like.attention_bias = like.output_bias = says("qkv_bias", "attention_bias");
  like.mlp_bias = says("bias", "mlp_bias");
  NIBBLE_REQUIRE(like.attention_bias == like.mlp_bias, FormatError,
                 "{}: 'bias' and 'qkv_bias': expected both or none, as transformers has it", config.what());
  like.activation = config.activation("hidden_act", "silu");
  return like.build();
}

}  // namespace nibble::model
