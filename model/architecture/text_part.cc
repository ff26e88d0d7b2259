#include "model/architecture/text_part.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/text/json.h"
#include "core/text/json_fields.h"
#include "core/text/strict_json.h"

namespace nibble::model {
namespace {

using Json = nlohmann::json;

struct Outer {
  std::string_view model_type;
  std::string_view text_type;  ///< of a text_config that does not say
  bool qwen = false;           ///< positions in three parts; text_type whatever text_config says
  bool flat = false;           ///< text_config may be left out: what it says is beside vision_config
};
constexpr Outer kOuter[] = {{"aya_vision", "cohere2"},
                            {"gemma3", "gemma3_text"},
                            {"got_ocr2", "qwen2"},
                            {"idefics3", "llama"},
                            {"internvl", "qwen2"},
                            {"llava", "llama"},
                            {"llava_next", "llama"},
                            {"llava_onevision", "qwen2"},
                            {"mistral3", "mistral"},
                            {"qwen2_5_vl", "qwen2_5_vl_text", true, true},
                            {"qwen2_vl", "qwen2_vl_text", true, true},
                            {"qwen3_vl", "qwen3_vl_text", true},
                            {"smolvlm", "llama"}};

// What a text_config may leave out, unlike a config.json of the model alone: extents, for which transformers has
// defaults. The family that it is, and the class, by which vLLM goes. `others` are defaults that differ from the
// family's.
struct TextType {
  std::string_view model_type, family, architecture;
  unsigned vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
  const char* others = "{}";
};
constexpr const char* kQwen2VlText = R"({"num_key_value_heads": 8, "max_position_embeddings": 32768,
    "max_window_layers": 80, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0})";
constexpr TextType kTextTypes[] = {
    {"cohere", "cohere", "CohereForCausalLM", 256000, 8192, 22528, 40, 64},
    {"cohere2", "cohere2", "Cohere2ForCausalLM", 256000, 8192, 22528, 40, 64},
    {"gemma3_text", "gemma3_text", "Gemma3ForCausalLM", 262208, 2304, 9216, 26, 8},
    {"llama", "llama", "LlamaForCausalLM", 32000, 4096, 11008, 32, 32},
    {"ministral3", "ministral3", "Ministral3ForCausalLM", 131072, 4096, 14336, 34, 32},
    {"mistral", "mistral", "MistralForCausalLM", 32000, 4096, 14336, 32, 32},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", 151936, 4096, 22016, 32, 32},
    {"qwen2_5_vl_text", "qwen2", "Qwen2ForCausalLM", 152064, 8192, 29568, 80, 64, kQwen2VlText},
    {"qwen2_vl_text", "qwen2", "Qwen2ForCausalLM", 152064, 8192, 29568, 80, 64, kQwen2VlText},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", 151936, 4096, 22016, 32, 32},
    {"qwen3_vl_text", "qwen3", "Qwen3ForCausalLM", 151936, 4096, 22016, 32, 32,
     R"({"max_position_embeddings": 128000, "rope_theta": 500000.0})"}};

bool says(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && !found->is_null();
}

void add_defaults(Json& text) {
  const auto* type = text.at("model_type").get_ptr<const std::string*>();
  if (type == nullptr) return;  // refused where the family is looked for
  const auto own = std::ranges::find(kTextTypes, *type, &TextType::model_type);
  if (own == std::end(kTextTypes)) return;
  text["model_type"] = own->family;
  text["architectures"] = {own->architecture};
  const auto add = [&](const char* key, unsigned extent) {
    if (!says(text, key)) text[key] = extent;
  };
  add("vocab_size", own->vocab_size);
  add("hidden_size", own->hidden_size);
  add("intermediate_size", own->intermediate_size);
  add("num_hidden_layers", own->num_hidden_layers);
  add("num_attention_heads", own->num_attention_heads);
  const Json others = Json::parse(own->others);
  for (const auto& [key, value] : others.items())
    if (!text.contains(key)) text[key] = value;  // null says something
}

// Of text alone a token has one position in time, height and width, whichever pairs each of them turns.
void make_rope_plain(Json& text, const JsonFields& fields) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!says(text, key)) continue;
    const JsonFields rope = fields.object(key);
    if (rope.has("mrope_section")) rope.counts("mrope_section");
    rope.boolean_or("mrope_interleaved", false);
    Json& own = text[key];
    own.erase("mrope_section");
    own.erase("mrope_interleaved");
    for (const char* type : {"type", "rope_type"})
      if (own.value(type, Json()) == "mrope") own[type] = "default";
  }
}

// The language model of Qwen's models that see, as one of those that do not.
void make_qwen_plain(Json& text, const std::string& what) {
  const Json before = text;
  const JsonFields fields(before, what);
  make_rope_plain(text, fields);
  for (const char* key : {"vision_config", "image_token_id", "video_token_id", "vision_start_token_id",
                          "vision_end_token_id", "vision_token_id"})
    text.erase(key);
  if (text.at("model_type") != "qwen3_vl_text") return;
  // All blocks see the whole text, whatever these say; the family without pictures has windows.
  fields.require_boolean("use_sliding_window", false);
  NIBBLE_REQUIRE(!fields.has("layer_types"), FormatError, "{}: 'layer_types': expected none of this model_type", what);
}

// What their predecessor left in text_config; transformers makes nothing of it.
void leave_out_unused(Json& text) {
  for (const char* key : {"neftune_noise_alpha", "perceiver_config", "pixel_shuffle_factor"}) text.erase(key);
  for (const char* key : {"qk_layer_norms", "use_resampler"})
    if (text.value(key, Json()) == false) text.erase(key);
}

// text_config, or what stands in for it.
Json text_of(const Json& whole, const Outer& outer, const std::string& what) {
  if (outer.flat && !says(whole, "text_config")) {
    Json text = whole;
    text.erase("text_config");
    return text;
  }
  static_cast<void>(JsonFields(whole, what).object("text_config"));
  return whole.at("text_config");
}

bool is_head(const std::string& stored) {
  const auto name = name_in_text_model(stored);
  return name && name->starts_with("lm_head.");
}

}  // namespace

std::optional<std::string> name_in_text_model(std::string_view stored, bool bare) {
  static constexpr std::pair<std::string_view, std::string_view> kPrefixes[] = {{"language_model.model.", "model."},
                                                                                {"language_model.lm_head.", "lm_head."},
                                                                                {"model.language_model.", "model."},
                                                                                {"model.text_model.", "model."},
                                                                                {"lm_head.", "lm_head."}};
  for (const auto& [longer, own] : kPrefixes)
    if (stored.starts_with(longer)) return std::string(own) + std::string(stored.substr(longer.size()));
  return bare && stored.starts_with("model.") ? std::optional(std::string(stored)) : std::nullopt;
}

std::optional<std::string> text_model_config(std::string_view config_text, std::string_view what,
                                             std::span<const std::string> stored) {
  std::string type;
  try {
    type = strict_json_text(config_text, "model_type", what).text;
  } catch (const FormatError&) {
    return std::nullopt;  // whoever needs the network says what is wrong
  }
  const auto outer = std::ranges::find(kOuter, type, &Outer::model_type);
  if (outer == std::end(kOuter)) return std::nullopt;
  const Json whole = parse_strict_json(config_text, what);
  Json text = text_of(whole, *outer, std::string(what));
  if (outer->qwen || !says(text, "model_type")) text["model_type"] = outer->text_type;
  if (outer->qwen) make_qwen_plain(text, std::string(what));
  if (type == "idefics3" || type == "smolvlm") leave_out_unused(text);
  add_defaults(text);
  for (const char* key : {"bos_token_id", "eos_token_id"})  // of the whole conversation, where there is one
    if (says(whole, key)) text[key] = whole.at(key);
  for (const char* key : {"tie_word_embeddings", "pad_token_id", "dtype", "torch_dtype", "quantization_config",
                          "quantization", "transformers_version"})
    if (!says(text, key) && says(whole, key)) text[key] = whole.at(key);
  // Where both speak of the head, transformers 5 goes by the outer if what is stored bears it out.
  const bool no_head = std::ranges::none_of(stored, is_head);
  if (!says(text, "tie_word_embeddings") || whole.value("tie_word_embeddings", Json()) == no_head)
    text["tie_word_embeddings"] = no_head;
  return text.dump(2) + "\n";
}

}  // namespace nibble::model
