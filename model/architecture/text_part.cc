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

// model_type, and that of a text_config which does not say.
constexpr std::pair<std::string_view, std::string_view> kOuter[] = {
    {"gemma3", "gemma3_text"}, {"llava", "llama"}, {"llava_next", "llama"}, {"mistral3", "mistral"}};

// What a text_config may leave out, unlike a config.json of the model alone: extents, for which transformers has
// defaults, and the class, by which vLLM goes.
struct Defaults {
  std::string_view model_type, architecture;
  unsigned vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
};
constexpr Defaults kDefaults[] = {{"gemma3_text", "Gemma3ForCausalLM", 262208, 2304, 9216, 26, 8},
                                  {"llama", "LlamaForCausalLM", 32000, 4096, 11008, 32, 32},
                                  {"mistral", "MistralForCausalLM", 32000, 4096, 14336, 32, 32},
                                  {"qwen2", "Qwen2ForCausalLM", 151936, 4096, 22016, 32, 32}};

bool says(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && !found->is_null();
}

void add_defaults(Json& text) {
  const auto* type = text.at("model_type").get_ptr<const std::string*>();
  if (type == nullptr) return;  // refused where the family is looked for
  const auto own = std::ranges::find(kDefaults, *type, &Defaults::model_type);
  if (own == std::end(kDefaults)) return;
  if (!says(text, "architectures")) text["architectures"] = {own->architecture};
  const auto add = [&](const char* key, unsigned extent) {
    if (!says(text, key)) text[key] = extent;
  };
  add("vocab_size", own->vocab_size);
  add("hidden_size", own->hidden_size);
  add("intermediate_size", own->intermediate_size);
  add("num_hidden_layers", own->num_hidden_layers);
  add("num_attention_heads", own->num_attention_heads);
}

bool is_head(const std::string& stored) {
  const auto name = name_in_text_model(stored);
  return name && name->starts_with("lm_head.");
}

}  // namespace

std::optional<std::string> name_in_text_model(std::string_view stored) {
  static constexpr std::pair<std::string_view, std::string_view> kPrefixes[] = {{"language_model.model.", "model."},
                                                                                {"language_model.lm_head.", "lm_head."},
                                                                                {"model.language_model.", "model."},
                                                                                {"lm_head.", "lm_head."}};
  for (const auto& [longer, own] : kPrefixes)
    if (stored.starts_with(longer)) return std::string(own) + std::string(stored.substr(longer.size()));
  return std::nullopt;
}

std::optional<std::string> text_model_config(std::string_view config_text, std::string_view what,
                                             std::span<const std::string> stored) {
  std::string type;
  try {
    type = strict_json_text(config_text, "model_type", what).text;
  } catch (const FormatError&) {
    return std::nullopt;  // whoever needs the network says what is wrong
  }
  const auto outer = std::ranges::find(kOuter, type, [](const auto& o) { return o.first; });
  if (outer == std::end(kOuter)) return std::nullopt;
  const Json whole = parse_strict_json(config_text, what);
  static_cast<void>(JsonFields(whole, std::string(what)).object("text_config"));
  Json text = whole.at("text_config");
  if (!says(text, "model_type")) text["model_type"] = outer->second;
  add_defaults(text);
  for (const char* key : {"bos_token_id", "eos_token_id"})  // of the whole conversation, where there is one
    if (says(whole, key)) text[key] = whole.at(key);
  for (const char* key : {"tie_word_embeddings", "pad_token_id", "dtype", "torch_dtype", "quantization_config",
                          "quantization", "transformers_version"})
    if (!says(text, key) && says(whole, key)) text[key] = whole.at(key);
  // Where both speak of the head and only the outer ties it, transformers 5 does so if there is no other.
  const bool ties = whole.value("tie_word_embeddings", Json()) == true;
  const bool no_head = std::ranges::none_of(stored, is_head);
  if (!says(text, "tie_word_embeddings") || (ties && no_head)) text["tie_word_embeddings"] = no_head;
  return text.dump(2) + "\n";
}

}  // namespace nibble::model
