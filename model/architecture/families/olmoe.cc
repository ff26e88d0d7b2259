#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Norms over the whole width of q and of k.
Architecture parse_olmoe(const FamilyConfig& config) {
  LlamaLike like(config, {.max_positions = 4096, .epsilon = 1e-5});
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  NIBBLE_REQUIRE(!config.has("clip_qkv"), FormatError,
                 "{}: 'clip_qkv': only null is computed for this model_type (it would clamp behind the norms)",
                 config.what());
  const std::size_t count = config.integer_of_or({"num_experts", "num_local_experts"}, 64, 1, kMaxExperts);
  config.require_reasonable("experts", count, like.layers);
  const std::size_t active = config.active_experts(count, 8);
  const bool renormalise = config.boolean_or("norm_topk_prob", false);
  Architecture a = like.build();
  like.set_qk_norms(a, true);
  for (std::size_t i = 0; i < like.layers; ++i) {
    const std::string prefix = LlamaLike::block_prefix(i) + "mlp.";
    a.blocks[i].mlp.reset();
    a.blocks[i].experts = mixture(i, prefix + "gate", like.hidden, count, active, [&](std::size_t e) {
      return like.mlp_of(i, fmt::format("{}experts.{}.", prefix, e), like.intermediate);
    });
    a.blocks[i].experts->renormalise = renormalise;
  }
  a.attention_bias_key = "attention_bias";
  return a;
}

}  // namespace nibble::model
