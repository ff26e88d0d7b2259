#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// Experts' matrices stacked, gate and up as halves of one.
Architecture parse_granitemoe(const FamilyConfig& config) {
  LlamaLike like(config);
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  const std::size_t count = config.integer_or("num_local_experts", 8, 1, kMaxExperts);
  config.require_reasonable("experts", count, like.layers);
  const std::size_t active = config.active_experts(count, 2), width = like.intermediate;
  Architecture a = like.build();
  for (std::size_t i = 0; i < like.layers; ++i) {
    const std::string prefix = LlamaLike::block_prefix(i) + "block_sparse_moe.";
    BlockSpec& block = a.blocks[i];
    block.mlp.reset();
    block.experts = mixture(i, prefix + "router.layer", like.hidden, count, active, [&](std::size_t e) {
      const Fused inputs{.module = fmt::format("{}input_linear.{}", prefix, e),
                         .rows = 2 * width,
                         .in = like.hidden,
                         .weight = prefix + "input_linear.weight",
                         .slices = count,
                         .slice = e};
      const Fused output{.module = fmt::format("{}output_linear.{}", prefix, e),
                         .rows = like.hidden,
                         .in = width,
                         .weight = prefix + "output_linear.weight",
                         .slices = count,
                         .slice = e};
      MlpSpec mlp;
      mlp.activation = like.activation;
      mlp.gate = part_of(inputs, Role::kGate, i, "gate", RowSet::contiguous(0, width));
      mlp.up = part_of(inputs, Role::kUp, i, "up", RowSet::contiguous(width, width));
      mlp.down = part_of(output, Role::kDown, i, "", RowSet::contiguous(0, like.hidden));
      return mlp;
    });
    block.experts->routing = ExpertsSpec::Routing::kTopThenSoftmax;
  }
  set_granite_multipliers(a, config);
  config.require_one_of("position_embedding_type", {"rope"});
  a.attention_bias_key = "attention_bias";
  return a;
}

}  // namespace nibble::model
