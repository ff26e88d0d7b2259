#include <cmath>

#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/parts.h"

namespace nibble::model {
namespace {

// q, k and v are thirds of c_attn; matrices are stored (in, out).
AttentionSpec attention_of(const std::string& prefix, std::size_t block, std::size_t hidden, std::size_t heads) {
  AttentionSpec spec;
  spec.heads = spec.kv_heads = heads;
  spec.head_dim = hidden / heads;
  spec.scale = 1.0 / std::sqrt(static_cast<double>(spec.head_dim));
  const Fused fused{prefix + "attn.c_attn", 3 * hidden, hidden, true, true};
  spec.q = part_of(fused, Role::kQ, block, "q", RowSet::contiguous(0, hidden));
  spec.k = part_of(fused, Role::kK, block, "k", RowSet::contiguous(hidden, hidden));
  spec.v = part_of(fused, Role::kV, block, "v", RowSet::contiguous(2 * hidden, hidden));
  spec.o = linear(Role::kO, block, prefix + "attn.c_proj", hidden, hidden, true);
  spec.o.weight.transposed = true;
  return spec;
}

MlpSpec mlp_of(const std::string& prefix, std::size_t block, std::size_t hidden, std::size_t intermediate) {
  MlpSpec spec;
  spec.up = linear(Role::kUp, block, prefix + "mlp.c_fc", intermediate, hidden, true);
  spec.down = linear(Role::kDown, block, prefix + "mlp.c_proj", hidden, intermediate, true);
  spec.up.weight.transposed = spec.down.weight.transposed = true;
  return spec;
}

}  // namespace

Architecture parse_gpt2(const FamilyConfig& config) {
  Architecture a;
  a.vocabulary = config.vocabulary();
  a.hidden = config.integer("n_embd", 1, kMaxWidth);
  const std::size_t layers = config.integer("n_layer", 1, kMaxLayers), heads = config.integer("n_head", 1, kMaxHeads);
  NIBBLE_REQUIRE(a.hidden % heads == 0, FormatError, "{}: n_embd {} is not a multiple of n_head {}", config.what(),
                 a.hidden, heads);
  const std::size_t intermediate = config.integer_or("n_inner", 4 * a.hidden, 1, kMaxWidth);
  a.max_positions = config.integer_or("n_positions", 1024, 1, kMaxPositions);
  const double epsilon = config.number_or("layer_norm_epsilon", 1e-5, 0.0, 1.0);
  const Activation activation = config.activation("activation_function", "gelu_new");
  const bool scaled = config.boolean_or("scale_attn_weights", true);
  const bool scaled_by_layer = config.boolean_or("scale_attn_by_inverse_layer_idx", false);
  a.prefix = "transformer.";
  a.names_lack_prefix = true;
  a.ignored_suffixes = {".attn.bias", ".attn.masked_bias"};

  using Kind = NormSpec::Kind;
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string prefix = fmt::format("h.{}.", i);
    BlockSpec block;
    block.attention_norm = norm(Kind::kLayer, Role::kAttentionNorm, i, prefix + "ln_1", a.hidden, epsilon, true);
    block.attention = attention_of(prefix, i, a.hidden, heads);
    if (!scaled) block.attention.scale = 1.0;
    if (scaled_by_layer) block.attention.scale /= static_cast<double>(i + 1);
    block.mlp_norm = norm(Kind::kLayer, Role::kMlpNorm, i, prefix + "ln_2", a.hidden, epsilon, true);
    block.mlp = mlp_of(prefix, i, a.hidden, intermediate);
    block.mlp->activation = activation;
    a.blocks.push_back(std::move(block));
  }
  a.positions = linear(Role::kPositions, layers, "wpe", a.max_positions, a.hidden);
  a.final_norm = norm(Kind::kLayer, Role::kFinalNorm, layers, "ln_f", a.hidden, epsilon, true);
  set_embedding_and_head(a, "wte", config.boolean_or("tie_word_embeddings", true));
  return a;
}

}  // namespace nibble::model
