#include <cmath>

#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/parts.h"

namespace nibble::model {

namespace {

constexpr std::size_t kPositionOffset = 2;  // rows in front of position 0's
constexpr double kOptEpsilon = 1e-5;        // no setting of a configuration

struct Opt {
  explicit Opt(const FamilyConfig& config)
      : hidden(config.integer("hidden_size", 1, kMaxWidth)),
        heads(config.integer("num_attention_heads", 1, kMaxHeads)),
        inner(config.integer("ffn_dim", 1, kMaxWidth)),
        biased(config.boolean_or("enable_bias", true)),
        affine(config.boolean_or("layer_norm_elementwise_affine", true)),
        activation(config.activation("activation_function", "relu")) {
    NIBBLE_REQUIRE(hidden % heads == 0, FormatError, "{}: hidden_size {} is not a multiple of num_attention_heads {}",
                   config.what(), hidden, heads);
    config.require_boolean("learned_embeddings", true);  // of Galactica, as the rest is in any case
    config.require_boolean("scale_embeddings", false);
  }

  NormSpec norm_of(Role role, std::size_t block, const std::string& module) const {
    return affine ? norm(NormSpec::Kind::kLayer, role, block, module, hidden, kOptEpsilon, true)
                  : plain_norm(NormSpec::Kind::kLayer, role, block, hidden, kOptEpsilon);
  }

  BlockSpec block(std::size_t i) const {
    const std::string prefix = fmt::format("model.decoder.layers.{}.", i), module = prefix + "self_attn.";
    BlockSpec block;
    block.attention_norm = norm_of(Role::kAttentionNorm, i, prefix + "self_attn_layer_norm");
    AttentionSpec& attention = block.attention;
    attention.heads = attention.kv_heads = heads;
    attention.head_dim = hidden / heads;
    attention.scale = 1.0 / std::sqrt(static_cast<double>(attention.head_dim));
    attention.q = linear(Role::kQ, i, module + "q_proj", hidden, hidden, biased);
    attention.k = linear(Role::kK, i, module + "k_proj", hidden, hidden, biased);
    attention.v = linear(Role::kV, i, module + "v_proj", hidden, hidden, biased);
    attention.o = linear(Role::kO, i, module + "out_proj", hidden, hidden, biased);
    block.mlp_norm = norm_of(Role::kMlpNorm, i, prefix + "final_layer_norm");
    MlpSpec& mlp = block.mlp.emplace();
    mlp.activation = activation;
    mlp.up = linear(Role::kUp, i, prefix + "fc1", inner, hidden, biased);
    mlp.down = linear(Role::kDown, i, prefix + "fc2", hidden, inner, biased);
    return block;
  }

  std::size_t hidden, heads, inner;
  bool biased, affine;
  Activation activation;
};

}  // namespace

// Learned positions that begin at row 2. The 350m model, whose norms stand behind and whose embeddings are narrower, is
// refused.
Architecture parse_opt(const FamilyConfig& config) {
  const Opt opt(config);
  config.require_boolean("do_layer_norm_before", true);
  const std::size_t projected = config.integer_or("word_embed_proj_dim", opt.hidden, 1, kMaxWidth);
  NIBBLE_REQUIRE(projected == opt.hidden, FormatError,
                 "{}: 'word_embed_proj_dim': only hidden_size ({}) is computed, got {}", config.what(), opt.hidden,
                 projected);
  const std::size_t layers = config.integer("num_hidden_layers", 1, kMaxLayers);
  Architecture a;
  a.vocabulary = config.vocabulary();
  a.hidden = opt.hidden;
  a.max_positions = config.integer_or("max_position_embeddings", 2048, 1, kMaxPositions);
  a.prefix = "model.";
  for (std::size_t i = 0; i < layers; ++i) a.blocks.push_back(opt.block(i));
  a.position_offset = kPositionOffset;
  a.positions =
      linear(Role::kPositions, layers, "model.decoder.embed_positions", a.max_positions + kPositionOffset, a.hidden);
  if (!config.boolean_or("_remove_final_layer_norm", false))
    a.final_norm = opt.norm_of(Role::kFinalNorm, layers, "model.decoder.final_layer_norm");
  set_embedding_and_head(a, "model.decoder.embed_tokens", config.boolean_or("tie_word_embeddings", true));
  return a;
}

}  // namespace nibble::model
