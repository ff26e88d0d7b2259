#include "model/gguf/gguf_describe.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "model/gguf/gguf_network.h"
#include "model/gguf/gguf_rotary.h"

namespace nibble::model {
namespace {

/// Adds keys of one architecture.
class Keys {
 public:
  Keys(GgufMetadata& metadata, const Architecture& architecture, const GgufArchitecture& names)
      : metadata_(metadata), architecture_(architecture), names_(names) {}

  void natural(std::string_view key, std::size_t value) {
    NIBBLE_REQUIRE(value <= std::numeric_limits<std::uint32_t>::max(), InvalidArgument,
                   "GGUF: '{}' of {} is more than 32 bits", key, value);
    metadata_.add(full(key), GgufValue(static_cast<std::uint32_t>(value)));
  }
  void number(std::string_view key, double value) { metadata_.add(full(key), GgufValue(static_cast<float>(value))); }
  void truth(std::string_view key, bool value) { metadata_.add(full(key), GgufValue(value)); }

  const BlockSpec& block() const { return architecture_.blocks.front(); }
  const Architecture& network() const { return architecture_; }
  std::string_view name() const { return names_.name; }

  void widths() {
    const AttentionSpec& attention = block().attention;
    natural("block_count", architecture_.blocks.size());
    natural("context_length", gguf_context(architecture_, names_));
    natural("embedding_length", architecture_.hidden);
    natural("feed_forward_length", block().intermediate());
    natural("attention.head_count", attention.heads);
    natural("attention.head_count_kv", attention.kv_heads);
    natural("attention.key_length", attention.head_dim);
    natural("attention.value_length", attention.head_dim);
    natural("vocab_size", architecture_.vocabulary);
  }

  void epsilon() {
    for (const NormSpec* const norm : norms(architecture_))
      if (norm->role != Role::kQNorm && norm->role != Role::kKNorm) {
        number(norm->kind == NormSpec::Kind::kRms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
               norm->epsilon);
        return;
      }
  }

  void experts() {
    const auto mixture =
        std::ranges::find_if(architecture_.blocks, [](const BlockSpec& b) { return b.experts.has_value(); });
    if (mixture == architecture_.blocks.end()) return;
    const ExpertsSpec& experts = *mixture->experts;
    natural("expert_count", experts.experts.size());
    natural("expert_used_count", experts.active);
    natural("expert_feed_forward_length", experts.experts.front().intermediate());
    if (names_.experts_demanded) {
      natural("leading_dense_block_count", static_cast<std::size_t>(mixture - architecture_.blocks.begin()));
      natural("expert_shared_count", experts.shared_count());
    }
    if (experts.routing == ExpertsSpec::Routing::kSigmoidThenTop) {
      sigmoids(experts);
    } else if (experts.shared) {
      natural("expert_shared_feed_forward_length", experts.shared->intermediate());
    }
  }

  void window() {
    if (names_.window_every == 0) return;
    for (const BlockSpec& block : architecture_.blocks)
      if (block.attention.window != 0) {
        natural("attention.sliding_window", block.attention.window);
        return;
      }
  }

  void multipliers() {
    number("attention.scale", block().attention.scale);
    number("embedding_scale", architecture_.embedding_scale);
    number("residual_scale", block().residual_multiplier);
    number("logit_scale", 1.0 / architecture_.head.scale);
  }

  void soft_caps() {
    number("attn_logit_softcapping", block().attention.softcap);
    number("final_logit_softcapping", architecture_.head.softcap);
  }

 private:
  void sigmoids(const ExpertsSpec& experts) {
    number("expert_weights_scale", experts.scale);
    truth("expert_weights_norm", experts.renormalise);
    natural("expert_gating_func", kGgufSigmoids);
    if (experts.groups == 1) return;
    natural("expert_group_count", experts.groups);
    natural("expert_group_used_count", experts.active_groups);
  }

  std::string full(std::string_view key) const { return fmt::format("{}.{}", names_.name, key); }

  GgufMetadata& metadata_;
  const Architecture& architecture_;
  const GgufArchitecture& names_;
};

void special_keys(Keys& keys) {
  const std::string_view name = keys.name();
  const BlockSpec& block = keys.block();
  if (name == "granite" || name == "granitemoe") keys.multipliers();
  // The converter writes it of Granite 4.0 alone, whose heads may not turn.
  if (keys.network().family == "granitemoehybrid")
    keys.truth("rope.scaling.finetuned", block.attention.rotary.has_value());
  if (name == "command-r" || name == "cohere2") keys.number("logit_scale", keys.network().head.scale);
  if (name == "ernie4_5-moe") keys.natural("interleave_moe_layer_step", 1);  // it loads no file with another
  if (name == "gemma2") keys.soft_caps();
  if (name == "gptneox" || name == "stablelm")
    keys.truth("use_parallel_residual", block.residual == BlockSpec::Residual::kParallel);
  if (name == "mistral3" && block.attention.growth.by != 0.0)
    keys.number("attention.temperature_scale", block.attention.growth.by);
  if (name == "olmo" && block.attention.clip > 0.0) keys.number("attention.clamp_kqv", block.attention.clip);
}

/// "15M", "1.2B": as model cards have it.
std::string size_label(const Architecture& architecture) {
  double weights = 0.0;
  for (const Parameter* const matrix : matrices(architecture)) weights += static_cast<double>(matrix->weights());
  for (const auto& [unit, letter] : {std::pair(1e12, 'T'), std::pair(1e9, 'B'), std::pair(1e6, 'M')}) {
    const double count = weights / unit;
    if (count >= 0.9995)
      return count < 9.95 ? fmt::format("{:.1f}{}", count, letter) : fmt::format("{:.0f}{}", count, letter);
  }
  return fmt::format("{:.0f}K", weights / 1e3);
}

}  // namespace

void describe_gguf(GgufMetadata& metadata, const Architecture& architecture, const std::string& name) {
  const GgufArchitecture& names = gguf_architecture_for(architecture);
  metadata.add("general.architecture", GgufValue(std::string(names.name)));
  metadata.add("general.type", GgufValue(std::string("model")));
  metadata.add("general.name", GgufValue(name));
  metadata.add("general.size_label", GgufValue(size_label(architecture)));
  Keys keys(metadata, architecture, names);
  keys.widths();
  keys.epsilon();
  add_gguf_rotary(metadata, architecture, names);
  keys.experts();
  keys.window();
  special_keys(keys);
}

}  // namespace nibble::model
