#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "model/architecture/family_config.h"
#include "model/architecture/parts.h"

namespace nibble::model {

/// What a family takes where config.json does not say, and which keys it reads.
struct LlamaDefaults {
  std::size_t kv_heads = 0;  ///< 0: as many as heads
  std::size_t head_dim = 0;  ///< 0: hidden_size / heads
  std::size_t max_positions = 2048;
  std::string_view epsilon_key = "rms_norm_eps";
  double epsilon = 1e-6;
  bool tied = false;
  RotaryDefaults rotary = {};
  bool by_layer_type = false;  ///< the family reads the rotary settings itself (FamilyConfig::rotary_by_layer_type)
};

/// The layout that most families share: model.embed_tokens, model.layers.N.{self_attn.{q,k,v,o}_proj,
/// mlp.{gate,up,down}_proj, input_layernorm, post_attention_layernorm}, model.norm, lm_head. The constructor reads the
/// usual keys; a family changes the members that differ, then build()s, then changes blocks of what it got.
struct LlamaLike {
  explicit LlamaLike(const FamilyConfig& config, const LlamaDefaults& defaults = {});

  std::size_t vocabulary, hidden, layers, heads, kv_heads, head_dim, intermediate, max_positions;
  NormSpec::Kind norm_kind = NormSpec::Kind::kRms;
  double epsilon;
  bool norm_bias = false;
  double gain_offset = 0.0;
  bool attention_bias = false;  ///< of q, k and v
  bool output_bias = false;     ///< of o
  bool mlp_bias = false;
  bool tied;
  Activation activation = Activation::kSilu;
  bool gated = true;
  RotarySpec rotary;
  std::string up_name = "up_proj", down_name = "down_proj", output_name = "o_proj";
  std::string attention_norm_name = "input_layernorm", mlp_norm_name = "post_attention_layernorm";
  std::string norm_name = "model.norm";
  bool head_biased = false;

  Architecture build() const;
  static std::string block_prefix(std::size_t block) { return fmt::format("model.layers.{}.", block); }
  /// RMS or LayerNorm, as the members say.
  NormSpec norm_of(Role role, std::size_t block, const std::string& module, std::size_t width) const;
  /// A gated (or plain) MLP with tensors of its own: PREFIXgate_proj, PREFIXup_proj, PREFIXdown_proj.
  MlpSpec mlp_of(std::size_t block, const std::string& prefix, std::size_t width) const;
  /// gate and up as the halves of PREFIXgate_up_proj.
  MlpSpec halved_mlp_of(std::size_t block, const std::string& prefix, std::size_t width) const;

  /// Norms over each head's q and k (one gain for all heads), or over all heads at once where `whole`.
  void set_qk_norms(Architecture& architecture, bool whole, const std::string& q = "q_norm",
                    const std::string& k = "k_norm") const;
  /// Norms over what attention and MLP add instead of norms in front of them.
  void set_post_norms_only(Architecture& architecture, const std::string& attention = "post_attention_layernorm",
                           const std::string& mlp = "post_feedforward_layernorm") const;
};

}  // namespace nibble::model
