#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Norms without parameters; q, k and v clamped.
Architecture parse_olmo(const FamilyConfig& config) {
  LlamaLike like(config);
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  constexpr double kEpsilon = 1e-5;  // no setting of a configuration
  const auto bare = [&](Role role, std::size_t block) {
    return plain_norm(NormSpec::Kind::kLayer, role, block, like.hidden, kEpsilon);
  };
  const double clip = config.number_or("clip_qkv", 0.0, 0.0, 1e9);
  for (std::size_t i = 0; i < like.layers; ++i) {
    a.blocks[i].attention_norm = bare(Role::kAttentionNorm, i);
    a.blocks[i].mlp_norm = bare(Role::kMlpNorm, i);
    a.blocks[i].attention.clip = clip;
  }
  a.final_norm = bare(Role::kFinalNorm, like.layers);
  a.attention_bias_key = "attention_bias";
  return a;
}

}  // namespace nibble::model
