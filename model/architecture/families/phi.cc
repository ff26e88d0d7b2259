#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Attention and MLP side by side behind one LayerNorm, part of each head turned, biases everywhere, the head too.
Architecture parse_phi(const FamilyConfig& config) {
  LlamaLike like(config, {.epsilon_key = "layer_norm_eps", .epsilon = 1e-5, .rotary = {.partial = 0.5}});
  like.norm_kind = NormSpec::Kind::kLayer;
  like.norm_bias = like.attention_bias = like.output_bias = like.mlp_bias = like.head_biased = true;
  like.gated = false;
  like.activation = config.activation("hidden_act", "gelu_new");
  like.output_name = "dense", like.up_name = "fc1", like.down_name = "fc2", like.norm_name = "model.final_layernorm";
  if (config.has("rotary_dim"))  // said once more
    config.integer("rotary_dim", like.rotary.dims, like.rotary.dims);
  Architecture a = like.build();
  for (BlockSpec& block : a.blocks) {
    block.residual = BlockSpec::Residual::kParallel;
    block.mlp_norm.reset();
  }
  if (config.boolean_or("qk_layernorm", false)) like.set_qk_norms(a, false, "q_layernorm", "k_layernorm");
  return a;
}

}  // namespace nibble::model
