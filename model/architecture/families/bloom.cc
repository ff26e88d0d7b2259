#include <cmath>

#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/parts.h"

namespace nibble::model {

// ALiBi instead of positions, a norm behind the embedding, q, k and v in one matrix, head by head.
Architecture parse_bloom(const FamilyConfig& config) {
  Architecture a;
  a.vocabulary = config.vocabulary();
  a.hidden = config.integer_of({"n_embed", "hidden_size"}, 1, kMaxWidth);
  config.mark("hidden_size");
  // ALiBi has no limit; this is what texts are cut to where nobody says more.
  a.max_positions = config.integer_or("seq_length", 2048, 1, kMaxPositions);
  const std::size_t layers = config.integer_of({"n_layer", "num_hidden_layers"}, 1, kMaxLayers);
  const std::size_t heads = config.integer_of({"n_head", "num_attention_heads"}, 1, kMaxHeads);
  NIBBLE_REQUIRE(a.hidden % heads == 0, FormatError, "{}: hidden_size {} is not a multiple of n_head {}", config.what(),
                 a.hidden, heads);
  const std::size_t inner = 4 * a.hidden, said = config.integer_or("n_inner", inner, 1, kMaxWidth);
  NIBBLE_REQUIRE(said == inner, FormatError, "{}: 'n_inner': only 4 hidden_size ({}) is computed, got {}",
                 config.what(), inner, said);
  const double epsilon = config.number_or("layer_norm_epsilon", 1e-5, 0.0, 1.0);
  config.require_boolean("apply_residual_connection_post_layernorm", false);
  a.prefix = "transformer.";

  constexpr auto kKind = NormSpec::Kind::kLayer;
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string prefix = fmt::format("transformer.h.{}.", i), module = prefix + "self_attention.";
    BlockSpec block;
    block.attention_norm = norm(kKind, Role::kAttentionNorm, i, prefix + "input_layernorm", a.hidden, epsilon, true);
    AttentionSpec& attention = block.attention;
    attention.heads = attention.kv_heads = heads;
    attention.head_dim = a.hidden / heads;
    attention.scale = 1.0 / std::sqrt(static_cast<double>(attention.head_dim));
    attention.alibi = alibi_slopes(heads);
    set_grouped_qkv(attention,
                    {.module = module + "query_key_value", .rows = 3 * a.hidden, .in = a.hidden, .biased = true}, i);
    attention.o = linear(Role::kO, i, module + "dense", a.hidden, a.hidden, true);
    block.mlp_norm = norm(kKind, Role::kMlpNorm, i, prefix + "post_attention_layernorm", a.hidden, epsilon, true);
    MlpSpec& mlp = block.mlp.emplace();
    mlp.activation = Activation::kGeluTanh;
    mlp.up = linear(Role::kUp, i, prefix + "mlp.dense_h_to_4h", inner, a.hidden, true);
    mlp.down = linear(Role::kDown, i, prefix + "mlp.dense_4h_to_h", a.hidden, inner, true);
    a.blocks.push_back(std::move(block));
  }
  a.embedding_norm =
      norm(kKind, Role::kEmbeddingNorm, layers, "transformer.word_embeddings_layernorm", a.hidden, epsilon, true);
  a.final_norm = norm(kKind, Role::kFinalNorm, layers, "transformer.ln_f", a.hidden, epsilon, true);
  set_embedding_and_head(a, "transformer.word_embeddings", config.boolean_or("tie_word_embeddings", true));
  return a;
}

}  // namespace nibble::model
