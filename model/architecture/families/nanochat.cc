#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Norms without parameters, one more behind the embedding and those of each head's q and k behind the rotary embedding,
// which turns the other way; no gate.
Architecture parse_nanochat(const FamilyConfig& config) {
  LlamaLike like(config);
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.activation = config.activation("hidden_act", "relu2");
  like.gated = false, like.up_name = "fc1", like.down_name = "fc2";
  like.rotary.backwards = true;
  Architecture a = like.build();
  const auto bare = [&](Role role, std::size_t block, std::size_t width) {
    return plain_norm(NormSpec::Kind::kRms, role, block, width, like.epsilon);
  };
  for (std::size_t i = 0; i < like.layers; ++i) {
    BlockSpec& block = a.blocks[i];
    block.attention_norm = bare(Role::kAttentionNorm, i, like.hidden);
    block.mlp_norm = bare(Role::kMlpNorm, i, like.hidden);
    block.attention.q_norm = bare(Role::kQNorm, i, like.head_dim);
    block.attention.k_norm = bare(Role::kKNorm, i, like.head_dim);
    block.attention.norms_behind_rotary = true;
  }
  a.embedding_norm = bare(Role::kEmbeddingNorm, like.layers, like.hidden);
  a.final_norm = bare(Role::kFinalNorm, like.layers, like.hidden);
  a.head.softcap =
      config.is_null("final_logit_softcapping") ? 0.0 : config.number_or("final_logit_softcapping", 15.0, 0.0, 1e9);
  a.attention_bias_key = "attention_bias";
  return a;
}

}  // namespace nibble::model
