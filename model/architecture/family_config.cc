#include "model/architecture/family_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"

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
                                          "predict_special_tokens",
                                          "prefix",
                                          "chunk_size_feed_forward",
                                          "temperature",
                                          "top_k",
                                          "top_p",
                                          "do_sample",
                                          "min_length",
                                          "max_length",
                                          "num_beams",
                                          "repetition_penalty"};
constexpr std::string_view kHarmlessPrefixes[] = {"_", "summary_", "output_"};

bool is_harmless(std::string_view key) {
  return std::find(std::begin(kHarmless), std::end(kHarmless), key) != std::end(kHarmless) ||
         std::any_of(std::begin(kHarmlessPrefixes), std::end(kHarmlessPrefixes),
                     [&](std::string_view prefix) { return key.starts_with(prefix); });
}

std::size_t original_context(const JsonFields& fields, const JsonFields& config, std::size_t max_positions) {
  constexpr const char* kKey = "original_max_position_embeddings";
  const JsonFields& where = fields.has(kKey) ? fields : config;
  return where.integer_or(kKey, max_positions, 1, kMaxPositions);
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

RotaryScaling llama3(const JsonFields& fields) {
  RotaryScaling scaling;
  scaling.kind = RotaryScaling::Kind::kLlama3;
  scaling.factor = fields.number("factor", 0.0, 1e6);
  scaling.low_frequency_factor = fields.number("low_freq_factor", 0.0, 1e6);
  scaling.high_frequency_factor = fields.number("high_freq_factor", 0.0, 1e6);
  scaling.original_context = fields.integer("original_max_position_embeddings", 1, kMaxPositions);
  NIBBLE_REQUIRE(scaling.low_frequency_factor < scaling.high_frequency_factor, FormatError,
                 "{}: expected low_freq_factor < high_freq_factor, got {} and {}", fields.what(),
                 scaling.low_frequency_factor, scaling.high_frequency_factor);
  return scaling;
}

}  // namespace

std::size_t FamilyConfig::head_dim(std::size_t hidden, std::size_t heads) const {
  if (has("head_dim")) return integer("head_dim", 1, kMaxHeadDim);
  NIBBLE_REQUIRE(hidden % heads == 0, FormatError,
                 "{}: the width {} is not a multiple of {} heads, and 'head_dim' is missing", what(), hidden, heads);
  return hidden / heads;
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

RotaryScaling FamilyConfig::rotary_scaling(const JsonFields& fields, std::size_t dims,
                                           std::size_t max_positions) const {
  const char* type_key = fields.has("rope_type") || !fields.has("type") ? "rope_type" : "type";
  const std::string type = fields.text_or(type_key, "default");
  fields.mark("type");
  const std::size_t context = original_context(fields, *this, max_positions);
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
    scaling = llama3(fields);
  } else if (type == "yarn") {
    scaling = yarn(fields, context, max_positions);
  } else if (type == "longrope" || type == "su") {
    scaling = long_rope(fields, dims, context, max_positions);
  } else {
    throw FormatError(
        fmt::format("{}: '{}': expected 'default', 'linear', 'dynamic', 'llama3', 'yarn' or 'longrope', got '{}'",
                    fields.what(), type_key, type));
  }
  return scaling;
}

RotarySpec FamilyConfig::rotary(std::size_t dims, std::size_t max_positions, double default_base) const {
  RotarySpec spec;
  spec.dims = dims;
  spec.base = number_or("rope_theta", default_base, 0.0, 1e15);
  // Newer configs keep the base and the scaling together in rope_parameters.
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!has(key)) continue;
    const JsonFields fields = object(key);
    spec.base = fields.number_or("rope_theta", spec.base, 0.0, 1e15);
    fields.mark("partial_rotary_factor");  // a family that has one reads it
    spec.scaling = rotary_scaling(fields, dims, max_positions);
    const std::vector<std::string> unread = fields.unread();
    NIBBLE_REQUIRE(unread.empty(), FormatError, "{}: '{}' is not known", fields.what(), unread.front());
  }
  return spec;
}

void FamilyConfig::read_special_tokens(Architecture& architecture) const {
  const std::uint64_t last = architecture.vocabulary - 1;
  if (has("bos_token_id")) architecture.bos = static_cast<std::uint32_t>(integer("bos_token_id", 0, last));
  const nlohmann::json* eos = find("eos_token_id");
  if (eos == nullptr) return;
  // Llama 3.1 lists several ends.
  const nlohmann::json list = eos->is_array() ? *eos : nlohmann::json::array({*eos});
  NIBBLE_REQUIRE(list.size() <= 64, FormatError, "{}: 'eos_token_id': expected at most 64 ids, got {}", what(),
                 list.size());
  for (const nlohmann::json& id : list) {
    const nlohmann::json member = {{"eos_token_id", id}};
    architecture.stop_tokens.push_back(
        static_cast<std::uint32_t>(JsonFields(member, what()).integer("eos_token_id", 0, last)));
  }
  if (!architecture.stop_tokens.empty()) architecture.eos = architecture.stop_tokens.front();
}

std::vector<std::string> FamilyConfig::not_understood() const {
  std::vector<std::string> keys = unread();
  std::erase_if(keys, is_harmless);
  return keys;
}

}  // namespace nibble::model
