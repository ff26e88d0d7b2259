#include "model/architecture/family_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "core/error.h"
#include "core/text/json.h"

namespace nibble::model {
namespace {

// Keys of config.json that say something of training, of the program that wrote it or of generation, and nothing of
// what the network computes from its weights.
constexpr std::string_view kHarmless[] = {"architectures",
                                          "auto_map",
                                          "transformers_version",
                                          "torch_dtype",
                                          "dtype",
                                          "use_cache",
                                          "initializer_range",
                                          "init_std",
                                          "internal_version",
                                          "pad_token_id",
                                          "sep_token_id",
                                          "cls_token_id",
                                          "mask_token_id",
                                          "unk_token_id",
                                          "decoder_start_token_id",
                                          "task_specific_params",
                                          "id2label",
                                          "label2id",
                                          "num_labels",
                                          "problem_type",
                                          "tokenizer_class",
                                          "finetuning_task",
                                          "num_steps",  // of Polyglot-Ko's training
                                          "attention_dropout",
                                          "hidden_dropout",
                                          "hidden_dropout_prob",
                                          "dropout",
                                          "activation_dropout",
                                          "attn_pdrop",
                                          "embd_pdrop",
                                          "resid_pdrop",
                                          "resid_dropout",
                                          "embed_dropout",
                                          "embedding_dropout",
                                          "residual_dropout",
                                          "classifier_dropout",
                                          "attention_probs_dropout_prob",
                                          "layerdrop",
                                          "attn_dropout",
                                          "router_aux_loss_coef",
                                          "router_z_loss_coef",
                                          "output_router_logits",
                                          "router_jitter_noise",
                                          "input_jitter_noise",
                                          "pretraining_tp",
                                          "gradient_checkpointing",
                                          "reorder_and_upcast_attn",
                                          "is_decoder",
                                          "is_encoder_decoder",
                                          "return_dict",
                                          "torchscript",
                                          "quantization_config",
                                          "model_max_length",
                                          "attn_implementation",
                                          "use_flash_attn",
                                          "use_flash_attention_2",
                                          "flash_attn",
                                          "unsloth_version",
                                          "unsloth_fixed",
                                          "bos_token",
                                          "eos_token",
                                          "language",
                                          "license",
                                          "n_ctx",
                                          "n_special",
                                          "n_vocab",
                                          "line_by_line",
                                          "transformers.js_config",
                                          "custom_pipelines",
                                          "predict_special_tokens",
                                          "prefix",
                                          "chunk_size_feed_forward",
                                          "attention_softmax_in_fp32",
                                          "scale_attention_softmax_in_fp32",
                                          "softmax_in_fp32",
                                          "masked_softmax_fusion",
                                          "bias_dropout_fusion",
                                          "offset_alibi",
                                          "skip_bias_add",
                                          "skip_bias_add_qkv",
                                          "seq_length",
                                          "slow_but_exact",
                                          "cache_implementation",
                                          "initial_context_length",
                                          "max_sequence_length",
                                          "use_bfloat16",
                                          "tf_legacy_loss",
                                          "cross_attention_hidden_size",
                                          "encoder_no_repeat_ngram_size",
                                          "no_repeat_ngram_size",
                                          "diversity_penalty",
                                          "num_beam_groups",
                                          "length_penalty",
                                          "early_stopping",
                                          "bad_words_ids",
                                          "forced_bos_token_id",
                                          "forced_eos_token_id",
                                          "begin_suppress_tokens",
                                          "suppress_tokens",
                                          "remove_invalid_values",
                                          "exponential_decay_length_penalty",
                                          "num_return_sequences",
                                          "return_dict_in_generate",
                                          "typical_p",
                                          "tie_encoder_decoder",
                                          "image_token_id",
                                          "resid_dropout_prob",
                                          "ffn_dropout",
                                          "mlp_dropout",
                                          "head_dropout",
                                          "aux_loss_coef",
                                          "aux_loss_alpha",
                                          "router_dtype",
                                          "vocab_file",
                                          "model_name",
                                          "name_or_path",
                                          "pretraining_mode",
                                          "temperature",
                                          "top_k",
                                          "top_p",
                                          "do_sample",
                                          "min_length",
                                          "max_length",
                                          "num_beams",
                                          "repetition_penalty"};
constexpr std::string_view kHarmlessPrefixes[] = {"_", "summary_", "output_"};

// Of families that decide on biases and windows by other keys or by none; transformers passes over these.
constexpr std::string_view kHarmlessIfFalse[] = {"attention_bias", "mlp_bias", "use_sliding_window"};

bool is_harmless(std::string_view key) {
  return std::find(std::begin(kHarmless), std::end(kHarmless), key) != std::end(kHarmless) ||
         std::any_of(std::begin(kHarmlessPrefixes), std::end(kHarmlessPrefixes),
                     [&](std::string_view prefix) { return key.starts_with(prefix); });
}

double yarn_magnitude(double factor, double multiplier) {
  return factor <= 1.0 ? 1.0 : 0.1 * multiplier * std::log(factor) + 1.0;
}

RotaryScaling yarn(const JsonFields& fields, std::size_t context, std::size_t max_positions) {
  RotaryScaling scaling;
  scaling.kind = RotaryScaling::Kind::kYarn;
  scaling.original_context = context;
  scaling.factor =
      fields.number_or("factor", static_cast<double>(max_positions) / static_cast<double>(context), 0.0, 1e6);
  scaling.beta_fast = fields.number_or("beta_fast", 32.0, 0.0, 1e6);
  scaling.beta_slow = fields.number_or("beta_slow", 1.0, 0.0, 1e6);
  scaling.truncate = fields.boolean_or("truncate", true);
  const double all = fields.number_or("mscale_all_dim", 0.0, -1.0, 1e6),
               one = fields.number_or("mscale", 0.0, -1.0, 1e6);
  const double by_rule = all != 0.0 && one != 0.0
                             ? yarn_magnitude(scaling.factor, one) / yarn_magnitude(scaling.factor, all)
                             : yarn_magnitude(scaling.factor, 1.0);
  scaling.magnitude = fields.number_or("attention_factor", by_rule, 0.0, 1e6);
  // Of YaRN-Llama-2 and DeepSeek-R1-0528-Qwen3-8B: other programs' keys, which transformers passes over.
  fields.mark("finetuned"), fields.mark("attn_factor");
  return scaling;
}

RotaryScaling long_rope(const JsonFields& fields, std::size_t dims, std::size_t context, std::size_t max_positions) {
  RotaryScaling scaling;
  scaling.kind = RotaryScaling::Kind::kLongRope;
  scaling.original_context = context;
  scaling.short_factors = fields.numbers("short_factor", dims / 2);
  scaling.long_factors = fields.numbers("long_factor", dims / 2);
  for (const auto* factors : {&scaling.short_factors, &scaling.long_factors})
    for (const double factor : *factors)
      NIBBLE_REQUIRE(factor > 0.0, FormatError, "{}: expected positive factors, got {}", fields.what(), factor);
  scaling.factor =
      fields.number_or("factor", static_cast<double>(max_positions) / static_cast<double>(context), 0.0, 1e6);
  const double by_rule =
      scaling.factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(scaling.factor) / std::log(static_cast<double>(context)));
  scaling.magnitude = fields.number_or("attention_factor", by_rule, 0.0, 1e6);
  return scaling;
}

RotaryScaling llama3(const JsonFields& fields, std::size_t context) {
  RotaryScaling scaling;
  scaling.kind = RotaryScaling::Kind::kLlama3;
  scaling.factor = fields.number("factor", 0.0, 1e6);
  scaling.low_frequency_factor = fields.number("low_freq_factor", 0.0, 1e6);
  scaling.high_frequency_factor = fields.number("high_freq_factor", 0.0, 1e6);
  scaling.original_context = context;
  NIBBLE_REQUIRE(scaling.low_frequency_factor < scaling.high_frequency_factor, FormatError,
                 "{}: expected low_freq_factor < high_freq_factor, got {} and {}", fields.what(),
                 scaling.low_frequency_factor, scaling.high_frequency_factor);
  return scaling;
}

}  // namespace

std::size_t original_context(const JsonFields& settings, const JsonFields& config, std::size_t fallback) {
  constexpr const char* kKey = "original_max_position_embeddings";
  const std::size_t inside = settings.integer_or(kKey, fallback, 1, kMaxPositions);
  return config.integer_or(kKey, inside, 1, kMaxPositions);
}

std::size_t FamilyConfig::head_dim(std::size_t hidden, std::size_t heads, std::size_t fallback) const {
  if (has("head_dim")) return integer("head_dim", 1, kMaxHeadDim);
  if (fallback > 0 && !is_null("head_dim")) return fallback;
  NIBBLE_REQUIRE(hidden % heads == 0, FormatError,
                 "{}: the width {} is not a multiple of {} heads, and 'head_dim' is missing", what(), hidden, heads);
  return hidden / heads;
}

std::size_t FamilyConfig::integer_of(std::initializer_list<const char*> keys, std::size_t min, std::size_t max) const {
  for (const char* key : keys)
    if (has(key)) return integer(key, min, max);
  return integer(*keys.begin(), min, max);
}

std::size_t FamilyConfig::integer_of_or(std::initializer_list<const char*> keys, std::size_t fallback, std::size_t min,
                                        std::size_t max) const {
  const bool there = std::any_of(keys.begin(), keys.end(), [&](const char* key) { return has(key); });
  return there ? integer_of(keys, min, max) : fallback;
}

std::size_t FamilyConfig::kv_heads(std::string_view key, std::size_t heads, std::size_t fallback) const {
  const std::size_t count = integer_or(key, is_null(key) || fallback == 0 ? heads : fallback, 1, kMaxHeads);
  NIBBLE_REQUIRE(heads % count == 0, FormatError, "{}: {} attention heads are not a multiple of {} {}", what(), heads,
                 key, count);
  return count;
}

void FamilyConfig::require_reasonable(std::string_view things, std::size_t count, std::size_t layers) const {
  constexpr std::size_t kMost = 1u << 17;
  NIBBLE_REQUIRE(count <= kMost / layers, FormatError, "{}: expected at most {} {} in all layers, got {} in {} layers",
                 what(), kMost, things, count, layers);
}

std::uint64_t FamilyConfig::integer_within(std::string_view key, std::uint64_t fallback, std::uint64_t min,
                                           std::uint64_t max) const {
  const std::uint64_t value = integer_or(key, fallback, min, max);
  NIBBLE_REQUIRE(value >= min && value <= max, FormatError,
                 "{}: '{}': expected {} to {}, and it is not there: its default is {}", what(), key, min, max, value);
  return value;
}

std::size_t FamilyConfig::shared_width(std::string_view key, std::size_t count, std::size_t width) const {
  NIBBLE_REQUIRE(count * width <= kMaxWidth, FormatError, "{}: '{}': {} experts of width {} are one MLP wider than {}",
                 what(), key, count, width, kMaxWidth);
  return count * width;
}

std::size_t FamilyConfig::active_experts(std::size_t count, std::size_t fallback) const {
  return integer_within("num_experts_per_tok", fallback, 1, count);
}

Activation FamilyConfig::activation(std::string_view key, std::string_view fallback) const {
  // What the transformers library calls them.
  static constexpr std::pair<std::string_view, Activation> kNames[] = {
      {"silu", Activation::kSilu},          {"swish", Activation::kSilu},
      {"gelu_new", Activation::kGeluTanh},  {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh}, {"gelu", Activation::kGelu},
      {"relu", Activation::kRelu},          {"relu2", Activation::kRelu2}};
  const std::string name = text_or(key, fallback);
  std::vector<std::string_view> known;
  for (const auto& [text, activation] : kNames) {
    if (text == name) return activation;
    known.push_back(text);
  }
  throw FormatError(fmt::format("{}: '{}': expected {}, got '{}'", what(), key, fmt::join(known, " or "), name));
}

RotaryScaling FamilyConfig::rotary_scaling(const JsonFields& fields, std::size_t dims, std::size_t max_positions,
                                           const RotaryDefaults& defaults) const {
  const char* type_key = fields.has("rope_type") || !fields.has("type") ? "rope_type" : "type";
  std::string type = fields.text_or(type_key, "default");
  if (type == "su" || (type == "yarn" && defaults.yarn_means_longrope)) type = "longrope";
  fields.mark("type");
  const std::size_t fallback = defaults.original_context > 0 ? defaults.original_context : max_positions;
  const std::size_t context = original_context(fields, *this, fallback);
  RotaryScaling scaling;
  if (type == "default") return scaling;
  if (type == "linear") {
    scaling.kind = RotaryScaling::Kind::kLinear;
    scaling.factor = fields.number("factor", 0.0, 1e6);
  } else if (type == "dynamic") {
    scaling.kind = RotaryScaling::Kind::kDynamic;
    scaling.factor = fields.number("factor", 0.0, 1e6);
    scaling.original_context = max_positions;
    NIBBLE_REQUIRE(dims > 2, FormatError, "{}: 'dynamic' needs more than one rotary pair", fields.what());
  } else if (type == "llama3") {
    scaling = llama3(fields, context);
  } else if (type == "yarn") {
    scaling = yarn(fields, context, max_positions);
  } else if (type == "longrope") {
    scaling = long_rope(fields, dims, context, max_positions);
  } else {
    throw FormatError(
        fmt::format("{}: '{}': expected 'default', 'linear', 'dynamic', 'llama3', 'yarn' or 'longrope', got '{}'",
                    fields.what(), type_key, type));
  }
  return scaling;
}

namespace {

// Settings of one object: base and scaling. `partial_rotary_factor` has been read before.
void read_rotary(const FamilyConfig& config, const JsonFields& fields, std::size_t max_positions,
                 const RotaryDefaults& defaults, RotarySpec& spec) {
  spec.base = fields.number_or("rope_theta", spec.base, 0.0, 1e15);
  fields.mark("partial_rotary_factor");
  if (defaults.query_growth) fields.mark("llama_4_scaling_beta"), fields.mark("max_position_embeddings");
  spec.scaling = config.rotary_scaling(fields, spec.dims, max_positions, defaults);
  const std::vector<std::string> unread = fields.unread();
  NIBBLE_REQUIRE(unread.empty(), FormatError, "{}: '{}' is not known", fields.what(), unread.front());
}

void require_pairs(const FamilyConfig& config, std::size_t dims, std::size_t head_dim) {
  NIBBLE_REQUIRE(dims > 0 && dims % 2 == 0, FormatError,
                 "{}: expected an even head_dim (rotary embeddings turn pairs), got {} of {} elements to turn",
                 config.what(), dims, head_dim);
}

constexpr std::array kRopeKeys = {"rope_scaling", "rope_parameters"};

// transformers lets the older key replace the newer one, its base included. Who added it wanted scaling, not that.
void require_one_rope(const FamilyConfig& config) {
  const nlohmann::json *older = config.find(kRopeKeys[0]), *newer = config.find(kRopeKeys[1]);
  NIBBLE_REQUIRE(
      older == nullptr || newer == nullptr || *older == *newer, FormatError,
      "{}: 'rope_scaling' and 'rope_parameters' say different things; keep one of them (with its rope_theta)",
      config.what());
}

std::size_t rotary_dims(const FamilyConfig& config, std::size_t head_dim, const RotaryDefaults& defaults) {
  double partial = defaults.partial.value_or(1.0);
  partial = config.number_or(defaults.partial_key, partial, 0.0, 1.0);
  for (const char* key : kRopeKeys)
    if (config.has(key)) partial = config.object(key).number_or("partial_rotary_factor", partial, 0.0, 1.0);
  NIBBLE_REQUIRE(defaults.partial || partial == 1.0, FormatError,
                 "{}: '{}': only 1 is computed for this model_type, got {}", config.what(), defaults.partial_key,
                 partial);
  const auto dims = static_cast<std::size_t>(static_cast<double>(head_dim) * partial);
  require_pairs(config, dims, head_dim);
  return dims;
}

}  // namespace

RotarySpec FamilyConfig::rotary(std::size_t head_dim, std::size_t max_positions, const RotaryDefaults& defaults) const {
  RotarySpec spec;
  require_one_rope(*this);
  spec.dims = rotary_dims(*this, head_dim, defaults);
  spec.base = number_or(defaults.base_key, defaults.base, 0.0, 1e15);
  mark("original_max_position_embeddings");  // without scaling it says nothing
  // Newer configs keep the base and the scaling together in rope_parameters.
  for (const char* key : kRopeKeys)
    if (has(key)) read_rotary(*this, object(key), max_positions, defaults, spec);
  return spec;
}

FamilyConfig::RotaryPair FamilyConfig::rotary_by_layer_type(std::size_t head_dim, std::size_t max_positions,
                                                            double full_base, double sliding_base,
                                                            std::string_view sliding_base_key) const {
  require_pairs(*this, head_dim, head_dim);
  require_one_rope(*this);
  RotaryPair pair;
  pair.full.dims = pair.sliding.dims = head_dim;
  pair.full.base = number_or("rope_theta", full_base, 0.0, 1e15);
  pair.sliding.base = number_or(sliding_base_key, sliding_base, 0.0, 1e15);
  if (has("rope_scaling")) read_rotary(*this, object("rope_scaling"), max_positions, {}, pair.full);
  if (!has("rope_parameters")) return pair;
  const JsonFields both = object("rope_parameters");
  if (both.has("full_attention")) read_rotary(*this, both.object("full_attention"), max_positions, {}, pair.full);
  if (both.has("sliding_attention"))
    read_rotary(*this, both.object("sliding_attention"), max_positions, {}, pair.sliding);
  const std::vector<std::string> unread = both.unread();
  NIBBLE_REQUIRE(unread.empty(), FormatError,
                 "{}: expected full_attention and sliding_attention, each with settings of its own, got '{}'",
                 both.what(), unread.front());
  return pair;
}

std::size_t FamilyConfig::window(std::size_t fallback) const {
  return is_null("sliding_window") ? 0 : integer_or("sliding_window", fallback, 0, kMaxPositions);
}

std::vector<bool> FamilyConfig::windowed_blocks(std::size_t layers,
                                                const std::function<bool(std::size_t)>& otherwise) const {
  std::vector<bool> windowed(layers);
  if (!has("layer_types")) {
    for (std::size_t i = 0; i < layers; ++i) windowed[i] = otherwise(i);
    return windowed;
  }
  const std::vector<std::string> types = texts("layer_types", layers);
  for (std::size_t i = 0; i < layers; ++i) {
    windowed[i] = types[i] == "sliding_attention";
    NIBBLE_REQUIRE(windowed[i] || types[i] == "full_attention", FormatError,
                   "{}: 'layer_types': expected 'full_attention' or 'sliding_attention', got '{}'", what(), types[i]);
  }
  return windowed;
}

void FamilyConfig::set_windows(Architecture& architecture, const std::vector<bool>& windowed,
                               std::size_t window) const {
  for (std::size_t i = 0; i < architecture.blocks.size(); ++i) {
    if (!windowed[i]) continue;
    NIBBLE_REQUIRE(window > 0, FormatError, "{}: 'sliding_window' is missing; layer {} has sliding attention", what(),
                   i);
    architecture.blocks[i].attention.window = window;
  }
}

void FamilyConfig::read_special_tokens(Architecture& architecture) const {
  // Models with a tokenizer of their own often have GPT-2's 50256 from the defaults of its configuration.
  const auto read = [&](const JsonFields& fields, std::string_view key) -> std::optional<std::uint32_t> {
    const std::uint64_t id = fields.integer(key, 0, std::numeric_limits<std::uint32_t>::max());
    if (id < architecture.vocabulary) return static_cast<std::uint32_t>(id);
    architecture.tokens_beyond_vocabulary.push_back(fmt::format("{} {}", key, id));
    return std::nullopt;
  };
  if (has("bos_token_id")) architecture.bos = read(*this, "bos_token_id");
  const nlohmann::json* eos = find("eos_token_id");
  if (eos == nullptr) return;
  // Llama 3.1 lists several ends.
  const nlohmann::json list = eos->is_array() ? *eos : nlohmann::json::array({*eos});
  NIBBLE_REQUIRE(list.size() <= 64, FormatError, "{}: 'eos_token_id': expected at most 64 ids, got {}", what(),
                 list.size());
  for (const nlohmann::json& id : list) {
    const nlohmann::json member = {{"eos_token_id", id}};
    if (const auto end = read(JsonFields(member, what()), "eos_token_id")) architecture.stop_tokens.push_back(*end);
  }
  if (!architecture.stop_tokens.empty()) architecture.eos = architecture.stop_tokens.front();
}

std::vector<std::string> FamilyConfig::not_understood() const {
  std::vector<std::string> keys = unread();
  std::erase_if(keys, [&](const std::string& key) {
    const nlohmann::json& value = *find(key);
    const bool off = value == false && std::ranges::find(kHarmlessIfFalse, key) != std::end(kHarmlessIfFalse);
    return is_harmless(key) || off || (value.is_structured() && value.empty());
  });
  return keys;
}

}  // namespace nibble::model
