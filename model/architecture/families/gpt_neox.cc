#include <cmath>

#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/parts.h"

namespace nibble::model {
namespace {

// One setting under two names: transformers of 2024 and 2025 save it under both.
double number_of_either(const FamilyConfig& config, const char* key, const char* other, double fallback, double max) {
  const double value = config.number_or(key, config.number_or(other, fallback, 0.0, max), 0.0, max);
  const double same = config.number_or(other, value, 0.0, max);
  NIBBLE_REQUIRE(same == value, FormatError, "{}: '{}' and '{}' are one setting: expected one value, got {} and {}",
                 config.what(), key, other, value, same);
  return value;
}

}  // namespace

// Attention and MLP side by side (or not), each behind its norm; q, k and v in one matrix, head by head.
Architecture parse_gpt_neox(const FamilyConfig& config) {
  Architecture a;
  a.vocabulary = config.vocabulary();
  a.hidden = config.integer("hidden_size", 1, kMaxWidth);
  a.max_positions = config.integer_or("max_position_embeddings", 2048, 1, kMaxPositions);
  const std::size_t layers = config.integer("num_hidden_layers", 1, kMaxLayers);
  const std::size_t heads = config.integer("num_attention_heads", 1, kMaxHeads);
  NIBBLE_REQUIRE(a.hidden % heads == 0, FormatError, "{}: hidden_size {} is not a multiple of num_attention_heads {}",
                 config.what(), a.hidden, heads);
  const std::size_t inner = config.integer_or("intermediate_size", 4 * a.hidden, 1, kMaxWidth);
  const double epsilon = config.number_or("layer_norm_eps", 1e-5, 0.0, 1.0);
  const bool biased = config.boolean_or("attention_bias", true);
  const bool parallel = config.boolean_or("use_parallel_residual", true);
  const double turning = number_of_either(config, "rotary_pct", "partial_rotary_factor", 0.25, 1.0);
  const double base = number_of_either(config, "rotary_emb_base", "rope_theta", 10000.0, 1e15);
  const RotarySpec rotary =
      config.rotary(a.hidden / heads, a.max_positions,
                    {.base = base, .partial = turning, .base_key = "rotary_emb_base", .partial_key = "rotary_pct"});
  a.prefix = "gpt_neox.";
  a.ignored_suffixes = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"};

  constexpr auto kKind = NormSpec::Kind::kLayer;
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string prefix = fmt::format("gpt_neox.layers.{}.", i);
    BlockSpec block;
    block.residual = parallel ? BlockSpec::Residual::kParallel : BlockSpec::Residual::kSequential;
    block.attention_norm = norm(kKind, Role::kAttentionNorm, i, prefix + "input_layernorm", a.hidden, epsilon, true);
    block.mlp_norm = norm(kKind, Role::kMlpNorm, i, prefix + "post_attention_layernorm", a.hidden, epsilon, true);
    AttentionSpec& attention = block.attention;
    attention.heads = attention.kv_heads = heads;
    attention.head_dim = a.hidden / heads;
    attention.scale = 1.0 / std::sqrt(static_cast<double>(attention.head_dim));
    attention.rotary = rotary;
    const std::string module = prefix + "attention.";
    set_grouped_qkv(attention,
                    {.module = module + "query_key_value", .rows = 3 * a.hidden, .in = a.hidden, .biased = biased}, i);
    attention.o = linear(Role::kO, i, module + "dense", a.hidden, a.hidden, biased);
    MlpSpec& mlp = block.mlp.emplace();
    mlp.activation = config.activation("hidden_act", "gelu");
    mlp.up = linear(Role::kUp, i, prefix + "mlp.dense_h_to_4h", inner, a.hidden, true);
    mlp.down = linear(Role::kDown, i, prefix + "mlp.dense_4h_to_h", a.hidden, inner, true);
    a.blocks.push_back(std::move(block));
  }
  a.final_norm = norm(kKind, Role::kFinalNorm, layers, "gpt_neox.final_layer_norm", a.hidden, epsilon, true);
  set_embedding_and_head(a, "gpt_neox.embed_in", config.boolean_or("tie_word_embeddings", false), false, "embed_out");
  return a;
}

}  // namespace nibble::model
