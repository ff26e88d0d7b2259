#include "model/transformer/config.h"

#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/strict_json.h"
#include "core/suggest.h"

namespace nibble::model {
namespace {

using Json = nlohmann::json;

// Generous limits: several times the largest models of these families. They keep sums and products of extents far from
// overflow; the weights themselves are checked against the files.
constexpr std::uint64_t kMaxVocabulary = 1u << 24, kMaxWidth = 1u << 20, kMaxLayers = 4096, kMaxHeads = 4096,
                        kMaxHeadDim = 4096, kMaxPositions = 1u << 26;

/// Typed access to the members of one JSON object; a null member counts as absent.
class Fields {
 public:
  Fields(const Json& object, std::string what) : object_(object), what_(std::move(what)) {
    NIBBLE_REQUIRE(object.is_object(), FormatError, "{}: expected a JSON object, got {}", what_, object.type_name());
  }

  const Json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  const std::string& what() const { return what_; }

  std::uint64_t integer(const char* key, std::uint64_t min, std::uint64_t max) const {
    const Json* value = find(key);
    NIBBLE_REQUIRE(value != nullptr, FormatError, "{}: '{}' is missing; expected an integer from {} to {}", what_, key,
                   min, max);
    NIBBLE_REQUIRE(
        value->is_number_unsigned() && value->get<std::uint64_t>() >= min && value->get<std::uint64_t>() <= max,
        FormatError, "{}: '{}': expected an integer from {} to {}, got {}", what_, key, min, max, value->dump());
    return value->get<std::uint64_t>();
  }
  std::uint64_t integer_or(const char* key, std::uint64_t fallback, std::uint64_t min, std::uint64_t max) const {
    return find(key) == nullptr ? fallback : integer(key, min, max);
  }
  double number_or(const char* key, double fallback, double above, double max) const {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    const double number = value->is_number() ? value->get<double>() : std::nan("");
    NIBBLE_REQUIRE(number > above && number <= max, FormatError,
                   "{}: '{}': expected a number above {} and at most {}, got {}", what_, key, above, max,
                   value->dump());
    return number;
  }
  bool boolean_or(const char* key, bool fallback) const {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    NIBBLE_REQUIRE(value->is_boolean(), FormatError, "{}: '{}': expected true or false, got {}", what_, key,
                   value->dump());
    return value->get<bool>();
  }
  std::string text_or(const char* key, const char* fallback) const {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    NIBBLE_REQUIRE(value->is_string(), FormatError, "{}: '{}': expected a text, got {}", what_, key, value->dump());
    return value->get<std::string>();
  }
  /// A setting of which we compute only one value.
  void require_boolean(const char* key, bool wanted) const {
    NIBBLE_REQUIRE(boolean_or(key, wanted) == wanted, FormatError, "{}: '{}': only {} is supported", what_, key,
                   wanted);
  }
  void require_one_of(const char* key, std::initializer_list<const char*> known) const {
    const std::string value = text_or(key, *known.begin());
    std::string list;
    for (const char* name : known) {
      if (value == name) return;
      list += (list.empty() ? "'" : ", '") + std::string(name) + "'";
    }
    throw FormatError(fmt::format("{}: '{}': expected {}, got '{}'", what_, key, list, value));
  }

 private:
  const Json& object_;
  std::string what_;
};

void read_special_tokens(const Fields& fields, Config& config) {
  if (fields.find("bos_token_id") != nullptr)
    config.bos = static_cast<std::uint32_t>(fields.integer("bos_token_id", 0, config.vocabulary - 1));
  const Json* eos = fields.find("eos_token_id");
  if (eos == nullptr) return;
  // Llama 3.1 lists several ends.
  const Json list = eos->is_array() ? *eos : Json::array({*eos});
  NIBBLE_REQUIRE(list.size() <= 64, FormatError, "{}: 'eos_token_id': expected at most 64 ids, got {}", fields.what(),
                 list.size());
  for (const Json& id : list) {
    const Json member = {{"eos_token_id", id}};
    config.stop_tokens.push_back(
        static_cast<std::uint32_t>(Fields(member, fields.what()).integer("eos_token_id", 0, config.vocabulary - 1)));
  }
  if (!config.stop_tokens.empty()) config.eos = config.stop_tokens.front();
}

std::optional<RopeScaling> parse_rope_scaling(const Fields& fields) {
  const char* type_key = fields.find("rope_type") != nullptr || fields.find("type") == nullptr ? "rope_type" : "type";
  const std::string type = fields.text_or(type_key, "default");
  if (type == "default") return std::nullopt;
  NIBBLE_REQUIRE(type == "llama3", FormatError, "{}: '{}': expected 'llama3' or 'default', got '{}'", fields.what(),
                 type_key, type);
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor"})
    NIBBLE_REQUIRE(fields.find(key) != nullptr, FormatError, "{}: '{}' is missing; expected a number", fields.what(),
                   key);
  RopeScaling scaling;
  scaling.factor = fields.number_or("factor", 1.0, 0.0, 1e6);
  scaling.low_frequency_factor = fields.number_or("low_freq_factor", 1.0, 0.0, 1e6);
  scaling.high_frequency_factor = fields.number_or("high_freq_factor", 4.0, 0.0, 1e6);
  scaling.original_context = fields.integer("original_max_position_embeddings", 1, kMaxPositions);
  NIBBLE_REQUIRE(scaling.low_frequency_factor < scaling.high_frequency_factor, FormatError,
                 "{}: expected low_freq_factor < high_freq_factor, got {} and {}", fields.what(),
                 scaling.low_frequency_factor, scaling.high_frequency_factor);
  return scaling;
}

Config parse_gpt2(const Fields& fields) {
  Config config;
  config.family = Family::kGpt2;
  config.vocabulary = fields.integer("vocab_size", 1, kMaxVocabulary);
  config.hidden = fields.integer("n_embd", 1, kMaxWidth);
  config.layers = fields.integer("n_layer", 1, kMaxLayers);
  config.heads = fields.integer("n_head", 1, kMaxHeads);
  config.kv_heads = config.heads;
  NIBBLE_REQUIRE(config.hidden % config.heads == 0, FormatError, "{}: n_embd {} is not a multiple of n_head {}",
                 fields.what(), config.hidden, config.heads);
  config.head_dim = config.hidden / config.heads;
  config.intermediate = fields.integer_or("n_inner", 4 * config.hidden, 1, kMaxWidth);
  config.max_positions = fields.integer_or("n_positions", 1024, 1, kMaxPositions);
  config.norm_epsilon = fields.number_or("layer_norm_epsilon", 1e-5, 0.0, 1.0);
  config.attention_bias = config.mlp_bias = true;
  config.tied_head = fields.boolean_or("tie_word_embeddings", true);
  fields.require_one_of("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  fields.require_boolean("scale_attn_weights", true);
  fields.require_boolean("scale_attn_by_inverse_layer_idx", false);
  fields.require_boolean("add_cross_attention", false);
  return config;
}

Config parse_llama(const Fields& fields) {
  Config config;
  config.family = Family::kLlama;
  config.vocabulary = fields.integer("vocab_size", 1, kMaxVocabulary);
  config.hidden = fields.integer("hidden_size", 1, kMaxWidth);
  config.layers = fields.integer("num_hidden_layers", 1, kMaxLayers);
  config.heads = fields.integer("num_attention_heads", 1, kMaxHeads);
  config.kv_heads = fields.integer_or("num_key_value_heads", config.heads, 1, kMaxHeads);
  NIBBLE_REQUIRE(config.heads % config.kv_heads == 0, FormatError,
                 "{}: num_attention_heads {} is not a multiple of num_key_value_heads {}", fields.what(), config.heads,
                 config.kv_heads);
  if (fields.find("head_dim") == nullptr)
    NIBBLE_REQUIRE(config.hidden % config.heads == 0, FormatError,
                   "{}: hidden_size {} is not a multiple of num_attention_heads {}, and 'head_dim' is missing",
                   fields.what(), config.hidden, config.heads);
  config.head_dim = fields.integer_or("head_dim", config.hidden / config.heads, 1, kMaxHeadDim);
  NIBBLE_REQUIRE(config.head_dim % 2 == 0 && config.head_dim > 0, FormatError,
                 "{}: expected an even head_dim (rotary embeddings turn pairs), got {}", fields.what(),
                 config.head_dim);
  config.intermediate = fields.integer("intermediate_size", 1, kMaxWidth);
  config.max_positions = fields.integer_or("max_position_embeddings", 2048, 1, kMaxPositions);
  config.norm_epsilon = fields.number_or("rms_norm_eps", 1e-6, 0.0, 1.0);
  config.rope_theta = fields.number_or("rope_theta", 10000.0, 0.0, 1e15);
  // Newer configs keep the base and the scaling together in rope_parameters.
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* rope = fields.find(key);
    if (rope == nullptr) continue;
    const Fields rope_fields(*rope, fmt::format("{}: '{}'", fields.what(), key));
    config.rope_scaling = parse_rope_scaling(rope_fields);
    config.rope_theta = rope_fields.number_or("rope_theta", config.rope_theta, 0.0, 1e15);
  }
  config.attention_bias = fields.boolean_or("attention_bias", false);
  config.mlp_bias = fields.boolean_or("mlp_bias", false);
  config.tied_head = fields.boolean_or("tie_word_embeddings", false);
  fields.require_one_of("hidden_act", {"silu"});
  return config;
}

}  // namespace

Config parse_config(std::string_view json_text, std::string_view what) {
  const Json json = parse_strict_json(json_text, what);
  const Fields fields(json, std::string(what));
  const std::string type = fields.text_or("model_type", "");
  static constexpr std::string_view kTypes[] = {"gpt2", "llama"};
  NIBBLE_REQUIRE(type == kTypes[0] || type == kTypes[1], FormatError,
                 "{}: 'model_type': expected 'gpt2' or 'llama', got '{}'{}", what, type, did_you_mean(type, kTypes));
  Config config = type == "gpt2" ? parse_gpt2(fields) : parse_llama(fields);
  read_special_tokens(fields, config);
  return config;
}

std::vector<LinearLayer> linear_layers(const Config& config) {
  std::vector<LinearLayer> layers;
  for (std::size_t block = 0; block < config.layers; ++block) {
    const bool gpt2 = config.family == Family::kGpt2;
    const std::string prefix = gpt2 ? fmt::format("h.{}.", block) : fmt::format("model.layers.{}.", block);
    const auto add = [&](const char* name, std::size_t out, std::size_t in) {
      layers.push_back({prefix + name, out, in, gpt2, block});
    };
    if (gpt2) {
      add("attn.c_attn", 3 * config.hidden, config.hidden);
      add("attn.c_proj", config.hidden, config.hidden);
      add("mlp.c_fc", config.intermediate, config.hidden);
      add("mlp.c_proj", config.hidden, config.intermediate);
    } else {
      add("self_attn.q_proj", config.q_width(), config.hidden);
      add("self_attn.k_proj", config.kv_width(), config.hidden);
      add("self_attn.v_proj", config.kv_width(), config.hidden);
      add("self_attn.o_proj", config.hidden, config.q_width());
      add("mlp.gate_proj", config.intermediate, config.hidden);
      add("mlp.up_proj", config.intermediate, config.hidden);
      add("mlp.down_proj", config.hidden, config.intermediate);
    }
  }
  return layers;
}

}  // namespace nibble::model
