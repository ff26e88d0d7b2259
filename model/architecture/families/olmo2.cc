#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Norms behind attention and MLP, and over the whole width of q and of k.
Architecture parse_olmo2(const FamilyConfig& config) {
  LlamaLike like(config, {.epsilon = 1e-5});
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  like.set_post_norms_only(a);
  like.set_qk_norms(a, true);
  a.attention_bias_key = "attention_bias";
  return a;
}

}  // namespace nibble::model
