#include <cmath>

#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/parts.h"

namespace nibble::model {

namespace {

// The settings that tell the generations apart: 40b and later ("new decoder"), 7b (one key-value head), rw (ALiBi).
struct Falcon {
  explicit Falcon(const FamilyConfig& config)
      : hidden(config.integer_of({"hidden_size", "n_embed"}, 1, kMaxWidth)),
        heads(config.integer_of({"num_attention_heads", "n_head"}, 1, kMaxHeads)),
        inner(config.integer_or("ffn_hidden_size", 4 * hidden, 1, kMaxWidth)),
        epsilon(config.number_or("layer_norm_epsilon", 1e-5, 0.0, 1.0)),
        new_decoder(config.boolean_or("new_decoder_architecture", false)),
        parallel(config.boolean_or("parallel_attn", true)),
        biased(config.boolean_or("bias", false)),
        alibi(config.boolean_or("alibi", false)),
        activation(config.activation("activation", "gelu")) {
    NIBBLE_REQUIRE(hidden % heads == 0, FormatError, "{}: hidden_size {} is not a multiple of num_attention_heads {}",
                   config.what(), hidden, heads);
    // Of Falcon 2, whose code takes ffn_hidden_size alone.
    const std::size_t factor = config.integer_or("ff_factor", 1, 1, kMaxWidth);
    NIBBLE_REQUIRE(!config.has("ff_factor") || factor * hidden == inner, FormatError,
                   "{}: ff_factor {} times hidden_size {} is not ffn_hidden_size {}", config.what(), factor, hidden,
                   inner);
    const std::size_t said = config.integer_of_or({"num_kv_heads", "n_head_kv"}, heads, 1, kMaxHeads);
    const bool one = config.boolean_or("multi_query", true) && !new_decoder;
    kv_heads = one ? 1 : new_decoder ? said : heads;
    NIBBLE_REQUIRE(heads % kv_heads == 0, FormatError,
                   "{}: num_attention_heads {} is not a multiple of num_kv_heads {}", config.what(), heads, kv_heads);
    NIBBLE_REQUIRE(parallel || !new_decoder, FormatError,
                   "{}: 'parallel_attn': only true is computed with new_decoder_architecture", config.what());
    const std::size_t norms = config.integer_or("num_ln_in_parallel_attn", new_decoder ? 2 : 1, 1, 2);
    NIBBLE_REQUIRE(norms == 1 || new_decoder, FormatError,
                   "{}: 'num_ln_in_parallel_attn': 2 is computed with new_decoder_architecture only", config.what());
    two_norms = norms == 2;
  }

  NormSpec norm_of(Role role, std::size_t block, const std::string& module) const {
    return norm(NormSpec::Kind::kLayer, role, block, module, hidden, epsilon, true);
  }

  void set_norms(BlockSpec& block, std::size_t i, const std::string& prefix) const {
    if (parallel) block.residual = BlockSpec::Residual::kParallel;
    block.attention_norm = norm_of(Role::kAttentionNorm, i, prefix + (two_norms ? "ln_attn" : "input_layernorm"));
    if (two_norms) block.mlp_norm = norm_of(Role::kMlpNorm, i, prefix + "ln_mlp");
    if (!parallel) block.mlp_norm = norm_of(Role::kMlpNorm, i, prefix + "post_attention_layernorm");
  }

  std::size_t hidden, heads, kv_heads = 1, inner;
  double epsilon;
  bool new_decoder, parallel, biased, alibi, two_norms = false;
  Activation activation;
};

}  // namespace

Architecture parse_falcon(const FamilyConfig& config) {
  const Falcon falcon(config);
  Architecture a;
  a.vocabulary = config.vocabulary();
  a.hidden = falcon.hidden;
  a.max_positions = config.integer_or("max_position_embeddings", 2048, 1, kMaxPositions);
  const std::size_t layers = config.integer_of({"num_hidden_layers", "n_layer"}, 1, kMaxLayers);
  // Nothing reads it: all models add to the stream itself.
  config.require_boolean("apply_residual_connection_post_layernorm", false);
  a.prefix = "transformer.";
  a.ignored_suffixes = {".rotary_emb.inv_freq", ".maybe_rotary.inv_freq"};
  const std::size_t head_dim = falcon.hidden / falcon.heads;
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  const RotarySpec rotary = falcon.alibi ? RotarySpec{} : config.rotary(head_dim, a.max_positions);
  if (falcon.alibi)
    for (const char* key : {"rope_theta", "rope_scaling", "rope_parameters"}) config.mark(key);

  for (std::size_t i = 0; i < layers; ++i) {
    const std::string prefix = fmt::format("transformer.h.{}.", i), module = prefix + "self_attention.";
    BlockSpec block;
    falcon.set_norms(block, i, prefix);
    AttentionSpec& attention = block.attention;
    attention.heads = falcon.heads;
    attention.kv_heads = falcon.kv_heads;
    attention.head_dim = head_dim;
    attention.scale = scale;
    if (falcon.alibi) {
      // Here the biases are scaled with the scores.
      attention.alibi = alibi_slopes(falcon.heads);
      for (double& slope : attention.alibi) slope *= scale;
    } else {
      attention.rotary = rotary;
    }
    set_grouped_qkv(attention,
                    {.module = module + "query_key_value",
                     .rows = attention.q_width() + 2 * attention.kv_width(),
                     .in = a.hidden,
                     .biased = falcon.biased},
                    i);
    attention.o = linear(Role::kO, i, module + "dense", a.hidden, a.hidden, falcon.biased);
    MlpSpec& mlp = block.mlp.emplace();
    mlp.activation = falcon.activation;
    mlp.up = linear(Role::kUp, i, prefix + "mlp.dense_h_to_4h", falcon.inner, a.hidden, falcon.biased);
    mlp.down = linear(Role::kDown, i, prefix + "mlp.dense_4h_to_h", a.hidden, falcon.inner, falcon.biased);
    a.blocks.push_back(std::move(block));
  }
  a.final_norm = falcon.norm_of(Role::kFinalNorm, layers, "transformer.ln_f");
  set_embedding_and_head(a, "transformer.word_embeddings", config.boolean_or("tie_word_embeddings", true));
  return a;
}

}  // namespace nibble::model
