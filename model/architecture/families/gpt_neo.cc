
#include "core/error.h"
#include "core/text/json.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/parts.h"

namespace nibble::model {

namespace {

// attention_layers lists "global" and "local"; or attention_types says [[list, how often], …].
std::vector<bool> local_blocks(const FamilyConfig& config, std::size_t layers) {
  std::vector<std::string> kinds;
  config.mark("attention_types");
  if (config.has("attention_layers")) {
    kinds = config.texts("attention_layers", layers);
  } else if (const nlohmann::json* types = config.find("attention_types")) {
    constexpr std::string_view kExpected = "[[[\"global\" or \"local\", …], repetitions], …]";
    NIBBLE_REQUIRE(types->is_array(), FormatError, "{}: 'attention_types': expected {}", config.what(), kExpected);
    for (const nlohmann::json& group : *types) {
      const bool good = group.is_array() && group.size() == 2 && group[0].is_array() && group[1].is_number_unsigned() &&
                        group[1].get<std::uint64_t>() <= kMaxLayers;
      NIBBLE_REQUIRE(good, FormatError, "{}: 'attention_types': expected {}", config.what(), kExpected);
      for (std::size_t n = group[1]; n > 0 && kinds.size() <= layers; --n)
        for (const nlohmann::json& kind : group[0]) kinds.push_back(kind.is_string() ? kind.get<std::string>() : "");
    }
  } else {
    for (std::size_t i = 0; i < layers; ++i) kinds.emplace_back(i % 2 == 0 ? "global" : "local");
  }
  NIBBLE_REQUIRE(kinds.size() == layers, FormatError, "{}: 'attention_types': expected {} layers, got {}",
                 config.what(), layers, kinds.size());
  std::vector<bool> local;
  for (const std::string& kind : kinds) {
    NIBBLE_REQUIRE(kind == "global" || kind == "local", FormatError,
                   "{}: 'attention_types': expected 'global' or 'local', got '{}'", config.what(), kind);
    local.push_back(kind == "local");
  }
  return local;
}

}  // namespace

// Scores are not scaled; every other block sees a window.
Architecture parse_gpt_neo(const FamilyConfig& config) {
  Architecture a;
  a.vocabulary = config.vocabulary();
  a.hidden = config.integer("hidden_size", 1, kMaxWidth);
  a.max_positions = config.integer_or("max_position_embeddings", 2048, 1, kMaxPositions);
  const std::size_t layers = config.integer_of({"num_layers", "num_hidden_layers"}, 1, kMaxLayers);
  const std::size_t heads = config.integer_of({"num_heads", "num_attention_heads"}, 1, kMaxHeads);
  NIBBLE_REQUIRE(a.hidden % heads == 0, FormatError, "{}: hidden_size {} is not a multiple of num_heads {}",
                 config.what(), a.hidden, heads);
  const std::size_t inner = config.integer_or("intermediate_size", 4 * a.hidden, 1, kMaxWidth);
  const std::size_t window = config.integer_or("window_size", 256, 1, kMaxPositions);
  const double epsilon = config.number_or("layer_norm_epsilon", 1e-5, 0.0, 1.0);
  const std::vector<bool> local = local_blocks(config, layers);
  a.prefix = "transformer.";
  a.ignored_suffixes = {".attn.attention.bias", ".attn.attention.masked_bias"};

  constexpr auto kKind = NormSpec::Kind::kLayer;
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string prefix = fmt::format("transformer.h.{}.", i), module = prefix + "attn.attention.";
    BlockSpec block;
    block.attention_norm = norm(kKind, Role::kAttentionNorm, i, prefix + "ln_1", a.hidden, epsilon, true);
    AttentionSpec& attention = block.attention;
    attention.heads = attention.kv_heads = heads;
    attention.head_dim = a.hidden / heads;
    attention.scale = 1.0;
    attention.window = local[i] ? window : 0;
    attention.q = linear(Role::kQ, i, module + "q_proj", a.hidden, a.hidden);
    attention.k = linear(Role::kK, i, module + "k_proj", a.hidden, a.hidden);
    attention.v = linear(Role::kV, i, module + "v_proj", a.hidden, a.hidden);
    attention.o = linear(Role::kO, i, module + "out_proj", a.hidden, a.hidden, true);
    block.mlp_norm = norm(kKind, Role::kMlpNorm, i, prefix + "ln_2", a.hidden, epsilon, true);
    MlpSpec& mlp = block.mlp.emplace();
    mlp.activation = config.activation("activation_function", "gelu_new");
    mlp.up = linear(Role::kUp, i, prefix + "mlp.c_fc", inner, a.hidden, true);
    mlp.down = linear(Role::kDown, i, prefix + "mlp.c_proj", a.hidden, inner, true);
    a.blocks.push_back(std::move(block));
  }
  a.positions = linear(Role::kPositions, layers, "transformer.wpe", a.max_positions, a.hidden);
  a.final_norm = norm(kKind, Role::kFinalNorm, layers, "transformer.ln_f", a.hidden, epsilon, true);
  set_embedding_and_head(a, "transformer.wte", config.boolean_or("tie_word_embeddings", true));
  return a;
}

}  // namespace nibble::model
