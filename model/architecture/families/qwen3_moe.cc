#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// The dense family's attention around mixtures without a shared expert.
Architecture parse_qwen3_moe(const FamilyConfig& config) {
  LlamaLike like(config, {.kv_heads = 4, .max_positions = 32768});
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  // Spellings of other families that Qwen3-Coder's files say the same with; nothing reads them.
  config.require_boolean("qkv_bias", false);
  config.require_boolean("use_qk_norm", true);
  config.integer_or("shared_expert_intermediate_size", 0, 0, 0);
  Architecture a = like.build();
  like.set_qk_norms(a, false);
  set_qwen_mixtures(a, config, like, qwen_sparse_blocks(config, like.layers),
                    {.count = 128, .active = 8, .width = 768});
  const std::size_t window = config.boolean_or("use_sliding_window", false) ? config.window(4096) : 0;
  config.mark("sliding_window");
  config.mark("max_window_layers");  // of the dense family; all blocks have the window or none
  for (BlockSpec& block : a.blocks) block.attention.window = window;
  a.attention_bias_key = "attention_bias";
  return a;
}

}  // namespace nibble::model
