#include <cmath>

#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

namespace {

// An expert of the stacks gate_up_proj (experts, in, 2 · intermediate), gate and up in alternate columns, and
// down_proj.
MlpSpec stacked_expert(const LlamaLike& like, std::size_t block, const std::string& prefix, std::size_t count,
                       std::size_t e) {
  const auto stack = [&](const std::string& name, std::size_t rows, std::size_t in) {
    return Fused{.module = fmt::format("{}{}.{}", prefix, name, e),
                 .rows = rows,
                 .in = in,
                 .biased = true,
                 .transposed = true,
                 .weight = prefix + name,
                 .bias = prefix + name + "_bias",
                 .slices = count,
                 .slice = e};
  };
  const std::size_t width = like.intermediate;
  const Fused gate_up = stack("gate_up_proj", 2 * width, like.hidden), down = stack("down_proj", like.hidden, width);
  MlpSpec mlp;
  mlp.activation = Activation::kClampedSwiglu;
  mlp.gate = part_of(gate_up, Role::kGate, block, "gate", {0, 1, 2, width});
  mlp.up = part_of(gate_up, Role::kUp, block, "up", {1, 1, 2, width});
  mlp.down = part_of(down, Role::kDown, block, "", RowSet::contiguous(0, like.hidden));
  return mlp;
}

// YaRN with these numbers where config.json says nothing of rotary embeddings.
RotaryScaling default_scaling() {
  RotaryScaling scaling;
  scaling.kind = RotaryScaling::Kind::kYarn;
  scaling.factor = 32.0;
  scaling.original_context = 4096;
  scaling.truncate = false;
  scaling.magnitude = 0.1 * std::log(scaling.factor) + 1.0;
  return scaling;
}

}  // namespace

// A learned sink per head, windows in every other block, mixtures of clamped SwiGLUs.
Architecture parse_gpt_oss(const FamilyConfig& config) {
  LlamaLike like(
      config, {.kv_heads = 8, .head_dim = 64, .max_positions = 131072, .epsilon = 1e-5, .rotary = {.base = 150000.0}});
  if (!config.has("rope_scaling") && !config.has("rope_parameters")) like.rotary.scaling = default_scaling();
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", true);
  config.require_one_of("hidden_act", {"silu"});
  const double alpha = config.number_or("swiglu_alpha", 1.702, 0.0, 1e6);
  const double limit = config.number_or("swiglu_limit", 7.0, 0.0, 1e6);
  const std::size_t count = config.integer_of_or({"num_local_experts", "num_experts"}, 128, 1, kMaxExperts);
  config.require_reasonable("experts", count, like.layers);
  const std::size_t active = config.active_experts(count, 4);
  config.mark("experts_per_token");  // an older spelling beside num_experts_per_tok
  Architecture a = like.build();
  for (std::size_t i = 0; i < like.layers; ++i) {
    const std::string prefix = LlamaLike::block_prefix(i);
    BlockSpec& block = a.blocks[i];
    block.attention.sinks = whole_vector(prefix + "self_attn.sinks", like.heads);
    block.mlp.reset();
    block.experts = mixture(i, prefix + "mlp.router", like.hidden, count, active, [&](std::size_t e) {
      MlpSpec mlp = stacked_expert(like, i, prefix + "mlp.experts.", count, e);
      mlp.alpha = alpha, mlp.limit = limit;
      return mlp;
    });
    block.experts->routing = ExpertsSpec::Routing::kTopThenSoftmax;
    block.experts->router.biased = true;
  }
  config.set_windows(a, config.windowed_blocks(like.layers, [](std::size_t i) { return i % 2 == 0; }),
                     config.window(128));
  a.attention_bias_key = "attention_bias";
  return a;
}

}  // namespace nibble::model
