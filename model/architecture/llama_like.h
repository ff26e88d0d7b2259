#pragma once

#include <fmt/format.h>

#include <string>

#include "model/architecture/family_config.h"
#include "model/architecture/parts.h"

namespace nibble::model {

/// The layout that most families share: model.embed_tokens, model.layers.N.{self_attn.{q,k,v,o}_proj,
/// mlp.{gate,up,down}_proj, input_layernorm, post_attention_layernorm}, model.norm, lm_head. The constructor reads the
/// usual keys; a family changes the members that differ, then build()s, then changes blocks of what it got.
struct LlamaLike {
  explicit LlamaLike(const FamilyConfig& config);

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
  std::string norm_name = "model.norm";

  Architecture build() const;
  static std::string block_prefix(std::size_t block) { return fmt::format("model.layers.{}.", block); }
  NormSpec norm_of(Role role, std::size_t block, const std::string& module, std::size_t width) const;
  MlpSpec mlp_of(std::size_t block, const std::string& prefix, std::size_t width) const;
};

}  // namespace nibble::model
