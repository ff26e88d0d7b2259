#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

namespace {

// An integer that has to be there where its default is 0.
std::size_t said_or(const FamilyConfig& config, const char* key, std::size_t fallback, std::size_t max) {
  return fallback == 0 ? config.integer(key, 1, max) : config.integer_within(key, fallback, 1, max);
}

// Groups that can be chosen of, by their two best experts.
void set_groups(ExpertsSpec& experts, std::size_t count, const FamilyConfig& config) {
  experts.groups = config.integer_or("n_group", 1, 1, count);
  experts.active_groups = config.integer_within("topk_group", 1, 1, experts.groups);
  const std::size_t size = count / experts.groups;
  NIBBLE_REQUIRE(experts.groups == 1 || (count % experts.groups == 0 && size >= 2), FormatError,
                 "{}: 'n_group': expected groups of two experts or more, of one size, got {} for {} experts",
                 config.what(), experts.groups, count);
  NIBBLE_REQUIRE(experts.active <= experts.active_groups * size, FormatError,
                 "{}: 'topk_group': {} of {} groups have {} experts, of which 'num_experts_per_tok' chooses {}",
                 config.what(), experts.active_groups, experts.groups, experts.active_groups * size, experts.active);
  if (experts.active_groups == experts.groups) experts.groups = experts.active_groups = 1;  // no expert is left out
}

// Layers behind the last block that guess at tokens further ahead: no part of the network, as in transformers.
void ignore_prediction_layers(Architecture& architecture, const FamilyConfig& config) {
  constexpr std::size_t kMost = 64;
  const std::size_t count = config.integer_of_or({"num_nextn_predict_layers", "num_mtp_layers"}, 1, 0, kMost);
  config.mark("num_mtp_layers");
  for (std::size_t i = 0; i < count; ++i)
    architecture.ignored_prefixes.push_back(LlamaLike::block_prefix(architecture.blocks.size() + i));
}

}  // namespace

void set_deepseek_mixtures(Architecture& architecture, const FamilyConfig& config, const LlamaLike& like,
                           const DeepSeekMixtures& defaults) {
  const std::size_t count =
      defaults.count == 0
          ? config.integer_of({"n_routed_experts", "num_local_experts"}, 1, kMaxExperts)
          : config.integer_of_or({"n_routed_experts", "num_local_experts"}, defaults.count, 1, kMaxExperts);
  config.mark("num_local_experts");
  config.require_reasonable("experts", count, like.layers);
  ExpertsSpec common;
  common.routing = ExpertsSpec::Routing::kSigmoidThenTop;
  common.active = said_or(config, "num_experts_per_tok", defaults.active, count);
  common.renormalise = config.boolean_or("norm_topk_prob", defaults.renormalise);
  common.scale = config.number_or("routed_scaling_factor", 1.0, 0.0, 1e6);
  set_groups(common, count, config);
  const std::size_t width = config.integer_or("moe_intermediate_size", defaults.width, 1, kMaxWidth);
  const std::size_t shared =
      config.shared_width("n_shared_experts", said_or(config, "n_shared_experts", defaults.shared, kMaxExperts), width);
  const std::size_t dense = config.integer_or("first_k_dense_replace", defaults.dense, 0, kMaxLayers);
  // Keys of DeepSeek's that transformers does not read of these families: what it computes is their only value.
  config.require_one_of("scoring_func", {"sigmoid", "noaux_tc"});
  config.require_one_of("topk_method", {"noaux_tc"});
  config.integer_or("moe_layer_freq", 1, 1, 1);
  for (std::size_t i = dense; i < like.layers; ++i) {
    const std::string prefix = LlamaLike::block_prefix(i) + "mlp.";
    BlockSpec& block = architecture.blocks[i];
    block.mlp.reset();
    block.experts = mixture(i, prefix + "gate", like.hidden, count, common.active, [&](std::size_t e) {
      return like.mlp_of(i, fmt::format("{}experts.{}.", prefix, e), width);
    });
    ExpertsSpec& experts = *block.experts;
    experts.routing = common.routing, experts.renormalise = common.renormalise, experts.scale = common.scale;
    experts.groups = common.groups, experts.active_groups = common.active_groups;
    experts.correction = whole_vector(prefix + "gate.e_score_correction_bias", count);
    experts.shared = shared_expert(like.mlp_of(i, prefix + "shared_experts.", shared));
  }
}

// GLM-4.5 and 4.6: half of each head turns, halves apart; mixtures behind the first blocks.
Architecture parse_glm4_moe(const FamilyConfig& config) {
  LlamaLike like(config, {.kv_heads = 8, .max_positions = 131072, .epsilon = 1e-5, .rotary = {.partial = 0.5}});
  like.attention_bias = config.boolean_or("attention_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  if (config.boolean_or("use_qk_norm", false)) like.set_qk_norms(a, false);
  set_deepseek_mixtures(a, config, like, {.count = 128, .active = 8, .shared = 1, .dense = 1, .renormalise = true});
  ignore_prediction_layers(a, config);
  a.attention_bias_key = "attention_bias", a.output_bias_has_key = false;
  return a;
}

}  // namespace nibble::model
