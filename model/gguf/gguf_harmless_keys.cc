#include "model/gguf/gguf_harmless_keys.h"

#include <algorithm>
#include <vector>

namespace nibble::model {
namespace {

constexpr std::string_view kHarmless[] = {
    // what the shapes of tensors, which are checked, say too
    "vocab_size",
    "feed_forward_length",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    // settings of the other kind of norm, of embeddings that do not turn, of a scaling that is not the file's
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.original_context_length",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "attention.temperature_length",
    // of training, of the file, and of programs
    "context_length",
    "rope.scaling.finetuned",
    "tensor_data_layout",
    "pooling_type",
};
constexpr std::string_view kHarmlessPrefixes[] = {"vision.", "mm."};  // encoders of images beside the text's network

/// Settings that do nothing at one of these values; true and false are 1 and 0.
struct Neutral {
  std::string_view key;
  std::vector<double> values;
};

const std::vector<Neutral>& neutral_values() {
  static const std::vector<Neutral> list = {
      {"attention.causal", {1}},
      {"attention.clamp_kqv", {0}},
      {"attention.max_alibi_bias", {0}},
      {"attention.scale", {0}},
      {"attention.shared_kv_layers", {0}},
      {"attention.sliding_window", {0}},
      {"attention.temperature_scale", {0}},
      {"attn_logit_softcapping", {0}},
      {"final_logit_softcapping", {0}},
      {"router_logit_softcapping", {0}},
      {"embedding_scale", {0, 1}},
      {"residual_scale", {0, 1}},
      {"logit_scale", {0, 1}},
      {"expert_count", {0}},
      {"expert_used_count", {0}},
      {"expert_shared_count", {0}},
      {"expert_group_count", {0, 1}},
      {"expert_group_used_count", {0, 1}},
      {"expert_weights_scale", {0, 1}},
      {"expert_gating_func", {0, 1}},  // softmax
      {"interleave_moe_layer_step", {0, 1}},
      {"moe_every_n_layers", {0, 1}},
      {"leading_dense_block_count", {0}},
      {"nextn_predict_layers", {0}},
      {"rope.scale_linear", {0, 1}},
      {"rope.scaling.alpha", {0, 1}},
      {"rope.scaling.attn_factor", {1}},
      {"rope.scaling.factor", {0, 1}},
      {"rope.scaling.yarn_attn_factor", {1}},
      {"rope.scaling.yarn_log_multiplier", {0}},
  };
  return list;
}

}  // namespace

bool is_harmless_gguf_key(std::string_view key, const GgufValue& value) {
  if (std::find(std::begin(kHarmless), std::end(kHarmless), key) != std::end(kHarmless)) return true;
  if (std::any_of(std::begin(kHarmlessPrefixes), std::end(kHarmlessPrefixes),
                  [&](std::string_view prefix) { return key.starts_with(prefix); }))
    return true;
  // Without a factor, which is a key of its own, linear scaling is none.
  if (key == "rope.scaling.type")
    return value.text() != nullptr && (*value.text() == "none" || *value.text() == "linear");
  const auto truth = value.truth();
  const auto number = truth ? std::optional<double>(*truth ? 1.0 : 0.0) : value.number();
  return number && std::any_of(neutral_values().begin(), neutral_values().end(), [&](const Neutral& neutral) {
           return neutral.key == key &&
                  std::find(neutral.values.begin(), neutral.values.end(), *number) != neutral.values.end();
         });
}

}  // namespace nibble::model
