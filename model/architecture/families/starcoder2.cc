#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// LayerNorms, biases everywhere, a plain MLP.
Architecture parse_starcoder2(const FamilyConfig& config) {
  LlamaLike like(config,
                 {.kv_heads = 2, .max_positions = 4096, .epsilon_key = "norm_epsilon", .epsilon = 1e-5, .tied = true});
  like.norm_kind = NormSpec::Kind::kLayer;
  like.norm_bias = true;
  like.attention_bias = like.output_bias = like.mlp_bias = config.boolean_or("use_bias", true);
  like.gated = false;
  like.activation = config.activation("hidden_act", "gelu_pytorch_tanh");
  like.up_name = "c_fc", like.down_name = "c_proj";
  config.require_one_of("norm_type", {"layer_norm"});
  config.require_one_of("mlp_type", {"default"});
  config.require_boolean("scale_attn_weights", true);
  // Spellings of another family beside this one's; nothing reads them.
  config.mark("activation_function");
  config.mark("layer_norm_epsilon");
  config.mark("rms_norm_eps");
  Architecture a = like.build();
  const std::size_t window = config.window(0);
  for (BlockSpec& block : a.blocks) block.attention.window = window;
  return a;
}

}  // namespace nibble::model
