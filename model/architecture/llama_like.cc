#include "model/architecture/llama_like.h"

#include <cmath>

namespace nibble::model {

LlamaLike::LlamaLike(const FamilyConfig& config, const LlamaDefaults& defaults)
    : vocabulary(config.vocabulary()),
      hidden(config.integer("hidden_size", 1, kMaxWidth)),
      layers(config.integer("num_hidden_layers", 1, kMaxLayers)),
      heads(config.integer("num_attention_heads", 1, kMaxHeads)),
      kv_heads(config.kv_heads("num_key_value_heads", heads, defaults.kv_heads)),
      head_dim(config.head_dim(hidden, heads, defaults.head_dim)),
      intermediate(config.integer("intermediate_size", 1, kMaxWidth)),
      max_positions(config.integer_or("max_position_embeddings", defaults.max_positions, 1, kMaxPositions)),
      epsilon(config.number_or(defaults.epsilon_key, defaults.epsilon, 0.0, 1.0)),
      tied(config.boolean_or("tie_word_embeddings", defaults.tied)),
      rotary(defaults.by_layer_type ? RotarySpec{} : config.rotary(head_dim, max_positions, defaults.rotary)) {}

NormSpec LlamaLike::norm_of(Role role, std::size_t block, const std::string& module, std::size_t width) const {
  return norm(norm_kind, role, block, module, width, epsilon, norm_bias, gain_offset);
}

MlpSpec LlamaLike::mlp_of(std::size_t block, const std::string& prefix, std::size_t width) const {
  MlpSpec mlp;
  mlp.activation = activation;
  if (gated) mlp.gate = linear(Role::kGate, block, prefix + "gate_proj", width, hidden, mlp_bias);
  mlp.up = linear(Role::kUp, block, prefix + up_name, width, hidden, mlp_bias);
  mlp.down = linear(Role::kDown, block, prefix + down_name, hidden, width, mlp_bias);
  return mlp;
}

MlpSpec LlamaLike::halved_mlp_of(std::size_t block, const std::string& prefix, std::size_t width) const {
  MlpSpec mlp;
  mlp.activation = activation;
  const Fused fused{.module = prefix + "gate_up_proj", .rows = 2 * width, .in = hidden, .biased = mlp_bias};
  mlp.gate = part_of(fused, Role::kGate, block, "gate", RowSet::contiguous(0, width));
  mlp.up = part_of(fused, Role::kUp, block, "up", RowSet::contiguous(width, width));
  mlp.down = linear(Role::kDown, block, prefix + down_name, hidden, width, mlp_bias);
  return mlp;
}

void LlamaLike::set_qk_norms(Architecture& architecture, bool whole, const std::string& q, const std::string& k) const {
  for (std::size_t i = 0; i < architecture.blocks.size(); ++i) {
    AttentionSpec& attention = architecture.blocks[i].attention;
    const std::string module = block_prefix(i) + "self_attn.";
    attention.q_norm = norm_of(Role::kQNorm, i, module + q, whole ? attention.q_width() : head_dim);
    attention.k_norm = norm_of(Role::kKNorm, i, module + k, whole ? attention.kv_width() : head_dim);
  }
}

void LlamaLike::set_post_norms_only(Architecture& architecture, const std::string& attention,
                                    const std::string& mlp) const {
  for (std::size_t i = 0; i < architecture.blocks.size(); ++i) {
    BlockSpec& block = architecture.blocks[i];
    block.attention_norm.reset();
    block.mlp_norm.reset();
    block.attention_post_norm = norm_of(Role::kAttentionPostNorm, i, block_prefix(i) + attention, hidden);
    block.mlp_post_norm = norm_of(Role::kMlpPostNorm, i, block_prefix(i) + mlp, hidden);
  }
}

Architecture LlamaLike::build() const {
  Architecture a;
  a.vocabulary = vocabulary;
  a.hidden = hidden;
  a.max_positions = max_positions;
  a.ignored_suffixes = {".rotary_emb.inv_freq"};
  a.prefix = "model.";
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string prefix = block_prefix(i);
    BlockSpec block;
    AttentionSpec& attention = block.attention;
    attention.heads = heads;
    attention.kv_heads = kv_heads;
    attention.head_dim = head_dim;
    attention.scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
    attention.rotary = rotary;
    const std::string module = prefix + "self_attn.";
    attention.q = linear(Role::kQ, i, module + "q_proj", attention.q_width(), hidden, attention_bias);
    attention.k = linear(Role::kK, i, module + "k_proj", attention.kv_width(), hidden, attention_bias);
    attention.v = linear(Role::kV, i, module + "v_proj", attention.kv_width(), hidden, attention_bias);
    attention.o = linear(Role::kO, i, module + output_name, hidden, attention.q_width(), output_bias);
    block.attention_norm = norm_of(Role::kAttentionNorm, i, prefix + attention_norm_name, hidden);
    block.mlp_norm = norm_of(Role::kMlpNorm, i, prefix + mlp_norm_name, hidden);
    block.mlp = mlp_of(i, prefix + "mlp.", intermediate);
    a.blocks.push_back(std::move(block));
  }
  a.final_norm = norm_of(Role::kFinalNorm, layers, norm_name, hidden);
  set_embedding_and_head(a, "model.embed_tokens", tied, head_biased);
  return a;
}

}  // namespace nibble::model
