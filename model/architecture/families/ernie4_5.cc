#include <vector>

#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

namespace {

// Heads turn pair by pair; one key for all biases.
LlamaLike ernie_like(const FamilyConfig& config, const LlamaDefaults& defaults) {
  LlamaLike like(config, defaults);
  like.attention_bias = like.output_bias = like.mlp_bias = config.boolean_or("use_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  like.rotary.interleaved = true;
  return like;
}

// Which blocks are mixtures: every moe_layer_interval-th of those from the first to the last that may be.
std::vector<bool> mixture_blocks(const FamilyConfig& config, std::size_t layers) {
  const std::size_t step = config.integer_or("moe_layer_interval", 1, 1, kMaxLayers),
                    first = config.integer_or("moe_layer_start_index", 1, 0, kMaxLayers);
  const double last = config.number_or("moe_layer_end_index", -1.0, -2.0, static_cast<double>(kMaxLayers));
  std::vector<bool> are(layers);
  for (std::size_t i = first; i < layers; ++i)
    are[i] = (i + 1) % step == 0 && (last == -1.0 || static_cast<double>(i) <= last);
  return are;
}

// Layers that guess at tokens further ahead: no part of the network, as in transformers.
void ignore_mtp_layers(Architecture& architecture, const FamilyConfig& config) {
  config.mark("num_nextn_predict_layers");
  for (const char* name : {"mtp_block", "mtp_emb_norm", "mtp_hidden_norm", "mtp_linear_proj"})
    architecture.ignored_prefixes.push_back(fmt::format("model.{}.", name));
}

}  // namespace

// The dense models.
Architecture parse_ernie4_5(const FamilyConfig& config) {
  return ernie_like(config, {.kv_heads = 2,
                             .head_dim = 128,
                             .max_positions = 131072,
                             .epsilon = 1e-5,
                             .tied = true,
                             .rotary = {.base = 500000.0}})
      .build();
}

// Probabilities whose correction decides which experts are chosen, then divided by their sum; shared experts that are
// one MLP. Experts have no biases.
Architecture parse_ernie4_5_moe(const FamilyConfig& config) {
  LlamaLike like = ernie_like(
      config, {.kv_heads = 4, .max_positions = 131072, .epsilon = 1e-5, .tied = true, .rotary = {.base = 500000.0}});
  Architecture a = like.build();
  const std::size_t count = config.integer_of_or({"moe_num_experts", "num_experts"}, 64, 1, kMaxExperts);
  config.require_reasonable("experts", count, like.layers);
  const std::size_t active = config.has("moe_k") ? config.integer("moe_k", 1, count) : config.active_experts(count, 6);
  const std::size_t width = config.integer_or("moe_intermediate_size", 1536, 1, kMaxWidth),
                    shared = config.shared_width("moe_num_shared_experts",
                                                 config.integer_or("moe_num_shared_experts", 2, 0, kMaxExperts), width);
  const bool corrected = config.boolean_or("moe_use_aux_free", true);
  config.require_one_of("moe_gate", {"topk", "topk_fused"});
  config.require_one_of("moe_gate_act", {"softmax"});
  config.number_or("moe_norm_min", 1e-12, 0.0, 1e-6);  // far below any sum that a correction leaves
  for (const char* of_training : {"moe_capacity", "moe_aux_loss_lambda"}) config.mark(of_training);
  const std::vector<bool> mixtures = mixture_blocks(config, like.layers);
  LlamaLike of_experts = like;
  of_experts.mlp_bias = false;
  for (std::size_t i = 0; i < like.layers; ++i) {
    if (!mixtures[i]) continue;
    const std::string prefix = LlamaLike::block_prefix(i) + "mlp.";
    BlockSpec& block = a.blocks[i];
    block.mlp.reset();
    ExpertsSpec& experts =
        block.experts.emplace(mixture(i, prefix + "gate", like.hidden, count, active, [&](std::size_t e) {
          return of_experts.mlp_of(i, fmt::format("{}experts.{}.", prefix, e), width);
        }));
    experts.renormalise = true;
    if (corrected) {
      experts.correction = whole_vector(prefix + "moe_statics.e_score_correction_bias", count);
      experts.correction->slices = 1;
    }
    if (shared == 0) continue;
    experts.shared = shared_expert(like.mlp_of(i, prefix + "shared_experts.", shared));
  }
  ignore_mtp_layers(a, config);
  return a;
}

}  // namespace nibble::model
