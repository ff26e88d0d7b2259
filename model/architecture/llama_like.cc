#include "model/architecture/llama_like.h"

#include <cmath>

#include "core/error.h"

namespace nibble::model {

LlamaLike::LlamaLike(const FamilyConfig& config)
    : vocabulary(config.vocabulary()),
      hidden(config.integer("hidden_size", 1, kMaxWidth)),
      layers(config.integer("num_hidden_layers", 1, kMaxLayers)),
      heads(config.integer("num_attention_heads", 1, kMaxHeads)),
      kv_heads(config.integer_or("num_key_value_heads", heads, 1, kMaxHeads)),
      head_dim(config.head_dim(hidden, heads)),
      intermediate(config.integer("intermediate_size", 1, kMaxWidth)),
      max_positions(config.integer_or("max_position_embeddings", 2048, 1, kMaxPositions)),
      epsilon(config.number_or("rms_norm_eps", 1e-6, 0.0, 1.0)),
      tied(config.boolean_or("tie_word_embeddings", false)),
      rotary(config.rotary(head_dim, max_positions)) {
  NIBBLE_REQUIRE(heads % kv_heads == 0, FormatError,
                 "{}: num_attention_heads {} is not a multiple of num_key_value_heads {}", config.what(), heads,
                 kv_heads);
  NIBBLE_REQUIRE(head_dim % 2 == 0, FormatError, "{}: expected an even head_dim (rotary embeddings turn pairs), got {}",
                 config.what(), head_dim);
}

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
    block.attention_norm = norm_of(Role::kAttentionNorm, i, prefix + "input_layernorm", hidden);
    block.mlp_norm = norm_of(Role::kMlpNorm, i, prefix + "post_attention_layernorm", hidden);
    block.mlp = mlp_of(i, prefix + "mlp.", intermediate);
    a.blocks.push_back(std::move(block));
  }
  a.final_norm = norm_of(Role::kFinalNorm, layers, norm_name, hidden);
  set_embedding_and_head(a, "model.embed_tokens", tied);
  return a;
}

}  // namespace nibble::model
