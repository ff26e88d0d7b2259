#include <cmath>

#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/parts.h"

namespace nibble::model {

// Attention and MLP side by side behind one norm; the first rotary_dim elements of heads turn, pair by pair.
Architecture parse_gptj(const FamilyConfig& config) {
  Architecture a;
  a.vocabulary = config.vocabulary();
  a.hidden = config.integer("n_embd", 1, kMaxWidth);
  a.max_positions = config.integer_or("n_positions", 2048, 1, kMaxPositions);
  const std::size_t layers = config.integer("n_layer", 1, kMaxLayers), heads = config.integer("n_head", 1, kMaxHeads);
  NIBBLE_REQUIRE(a.hidden % heads == 0, FormatError, "{}: n_embd {} is not a multiple of n_head {}", config.what(),
                 a.hidden, heads);
  const std::size_t inner = config.integer_or("n_inner", 4 * a.hidden, 1, kMaxWidth);
  const double epsilon = config.number_or("layer_norm_epsilon", 1e-5, 0.0, 1.0);
  config.require_boolean("rotary", true);
  config.require_boolean("scale_attn_weights", true);
  RotarySpec rotary;
  rotary.interleaved = true;
  rotary.dims = config.integer_within("rotary_dim", 64, 2, a.hidden / heads);
  NIBBLE_REQUIRE(rotary.dims % 2 == 0, FormatError, "{}: 'rotary_dim': expected an even number, got {}", config.what(),
                 rotary.dims);
  a.prefix = "transformer.";
  a.ignored_suffixes = {".attn.bias", ".attn.masked_bias", ".attn.embed_positions"};

  constexpr auto kKind = NormSpec::Kind::kLayer;
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string prefix = fmt::format("transformer.h.{}.", i), module = prefix + "attn.";
    BlockSpec block;
    block.residual = BlockSpec::Residual::kParallel;
    block.attention_norm = norm(kKind, Role::kAttentionNorm, i, prefix + "ln_1", a.hidden, epsilon, true);
    AttentionSpec& attention = block.attention;
    attention.heads = attention.kv_heads = heads;
    attention.head_dim = a.hidden / heads;
    attention.scale = 1.0 / std::sqrt(static_cast<double>(attention.head_dim));
    attention.rotary = rotary;
    attention.q = linear(Role::kQ, i, module + "q_proj", a.hidden, a.hidden);
    attention.k = linear(Role::kK, i, module + "k_proj", a.hidden, a.hidden);
    attention.v = linear(Role::kV, i, module + "v_proj", a.hidden, a.hidden);
    attention.o = linear(Role::kO, i, module + "out_proj", a.hidden, a.hidden);
    MlpSpec& mlp = block.mlp.emplace();
    mlp.activation = config.activation("activation_function", "gelu_new");
    mlp.up = linear(Role::kUp, i, prefix + "mlp.fc_in", inner, a.hidden, true);
    mlp.down = linear(Role::kDown, i, prefix + "mlp.fc_out", a.hidden, inner, true);
    a.blocks.push_back(std::move(block));
  }
  a.final_norm = norm(kKind, Role::kFinalNorm, layers, "transformer.ln_f", a.hidden, epsilon, true);
  set_embedding_and_head(a, "transformer.wte", config.boolean_or("tie_word_embeddings", false), true);
  return a;
}

}  // namespace nibble::model
