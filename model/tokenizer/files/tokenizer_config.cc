#include "model/tokenizer/files/tokenizer_config.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"
#include "core/text/strict_json.h"
#include "model/tokenizer/files/text_file.h"
#include "model/tokenizer/files/vocabulary.h"

namespace nibble::model {
namespace {

/// "bos_token": "<s>", or the same as {"content": "<s>", …}.
std::optional<std::string> token_text(const JsonFields& fields, const char* name) {
  if (!fields.has(name)) return std::nullopt;
  return fields.at(name, "a token").is_object() ? fields.object(name).text("content") : fields.text(name);
}

// The same with the settings that an object may have; "__type" and the like are no settings.
void add_named(const JsonFields& fields, const char* name, std::vector<AddedToken>& special) {
  std::optional<std::string> text = token_text(fields, name);
  if (!text) return;
  AddedToken token{.content = std::move(*text), .special = true};
  if (fields.at(name, "a token").is_object()) {
    const JsonFields settings = fields.object(name);
    token.left_strip = settings.boolean_or("lstrip", false);
    token.right_strip = settings.boolean_or("rstrip", false);
    token.single_word = settings.boolean_or("single_word", false);
    token.normalized = settings.boolean_or("normalized", false);
  }
  special.push_back(std::move(token));
}

// Every token that has a name, whatever it is ("image_token"; "add_bos_token" is none), and those of
// additional_special_tokens and, as later versions call the list, extra_special_tokens, which may also be an object of
// tokens by name.
void add_special(const nlohmann::json& json, const JsonFields& fields, std::vector<AddedToken>& special) {
  static const std::set<std::string_view> kNames{"bos_token", "eos_token", "unk_token", "sep_token",
                                                 "pad_token", "cls_token", "mask_token"};
  for (const auto& [name, value] : json.items())
    if (kNames.contains(name) || (name.ends_with("_token") && (value.is_string() || value.is_object())))
      add_named(fields, name.c_str(), special);
  const auto add_all = [&](const char* name, const nlohmann::json& tokens) {
    for (const nlohmann::json& token : tokens) {
      const nlohmann::json member = {{name, token}};
      add_named(JsonFields(member, fields.what()), name, special);
    }
  };
  if (fields.has("additional_special_tokens"))
    add_all("additional_special_tokens", fields.list("additional_special_tokens"));
  if (!fields.has("extra_special_tokens")) return;
  const bool by_name = fields.at("extra_special_tokens", "tokens").is_object();
  add_all("extra_special_tokens",
          by_name ? fields.at("extra_special_tokens", "tokens") : fields.list("extra_special_tokens"));
}

void read_special_tokens_map(TokenizerConfig& config, const std::filesystem::path& directory) {
  const auto path = directory / "special_tokens_map.json";
  if (!file_exists(path)) return;
  const nlohmann::json json = parse_strict_json(read_text_file(path), path.string());
  add_special(json, JsonFields(json, path.string()), config.special);
}

std::uint64_t parse_id(std::string_view digits, const std::string& where) {
  std::uint64_t id = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  NIBBLE_REQUIRE(error == std::errc() && end == digits.data() + digits.size(), FormatError, "{}: {} is not a token id",
                 where, in_quotes(digits));
  return id;
}

}  // namespace

TokenizerConfig read_tokenizer_config(const std::filesystem::path& path) {
  TokenizerConfig config;
  if (!file_exists(path)) return config;
  const nlohmann::json json = parse_strict_json(read_text_file(path), path.string());
  const JsonFields fields(json, path.string());
  if (fields.has("add_bos_token")) config.add_bos = fields.boolean("add_bos_token");
  static_cast<void>(fields.boolean_or("add_eos_token", false));  // behind a text, where nobody adds any
  fields.require_boolean("split_special_tokens", false);
  config.bos = token_text(fields, "bos_token");
  config.eos = token_text(fields, "eos_token");
  if (fields.has("add_prefix_space")) config.add_prefix_space = fields.boolean("add_prefix_space");
  config.legacy = fields.boolean_or("legacy", true);
  config.tokenizer_class = fields.text_or("tokenizer_class", "");
  add_special(json, fields, config.special);
  if (fields.has("added_tokens_decoder")) {
    const JsonFields tokens = fields.object("added_tokens_decoder");
    for (const auto& [id, token] : fields.at("added_tokens_decoder", "an object").items()) {
      const JsonFields settings(token, tokens.what() + " " + in_quotes(id));
      config.added.push_back(read_added_token(settings, parse_id(id, tokens.what())));
      if (!settings.has("normalized")) config.added.back().normalized = !config.added.back().special;
    }
  }
  return config;
}

void read_map_beside(TokenizerConfig& config, const std::filesystem::path& directory) {
  if (config.added.empty()) read_special_tokens_map(config, directory);
}

void read_files_beside(TokenizerConfig& config, const std::filesystem::path& directory) {
  read_special_tokens_map(config, directory);
  for (AddedToken& token : config.special) token = {.content = token.content, .special = true};
  const auto path = directory / "added_tokens.json";
  if (!config.added.empty() || !file_exists(path)) return;
  const nlohmann::json json = parse_strict_json(read_text_file(path), path.string());
  NIBBLE_REQUIRE(json.is_object(), FormatError, "{}: expected an object of ids by token, got {}", path.string(),
                 json.type_name());
  const JsonFields fields(json, path.string());
  std::unordered_set<std::string_view> special;
  for (const AddedToken& token : config.special) special.insert(token.content);
  for (const auto& [content, id] : json.items()) {
    const std::uint64_t number = fields.count(content);
    NIBBLE_REQUIRE(!content.empty() && number < kMaxVocabulary, FormatError, "{}: {}: id {} is not below {}",
                   path.string(), in_quotes(content), number, kMaxVocabulary);
    // Found in texts as they are: whoever reads these files looks for them first.
    config.added.push_back({.id = static_cast<TokenId>(number),
                            .content = content,
                            .special = special.contains(content),
                            .normalized = false});
  }
}

AddedToken read_added_token(const JsonFields& fields, std::uint64_t id) {
  fields.allow_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  NIBBLE_REQUIRE(id < kMaxVocabulary, FormatError, "{}: id {} is not below {}", fields.what(), id, kMaxVocabulary);
  return {.id = static_cast<TokenId>(id),
          .content = fields.filled_text("content"),
          .special = fields.boolean_or("special", false),
          .left_strip = fields.boolean_or("lstrip", false),
          .right_strip = fields.boolean_or("rstrip", false),
          .single_word = fields.boolean_or("single_word", false),
          .normalized = fields.boolean_or("normalized", true)};
}

void join_added_tokens(std::vector<AddedToken>& added, const TokenizerConfig& config, const std::string& where) {
  std::unordered_map<TokenId, std::size_t> index_of;
  for (std::size_t i = 0; i < added.size(); ++i) index_of.emplace(added[i].id, i);
  for (const AddedToken& token : config.added) {
    const auto [place, is_new] = index_of.emplace(token.id, added.size());
    if (is_new) {
      added.push_back(token);
      continue;
    }
    AddedToken& known = added[place->second];
    NIBBLE_REQUIRE(known.content == token.content, FormatError,
                   "{}: added token {} is {}, but {} in tokenizer_config.json", where, token.id,
                   in_quotes(known.content), in_quotes(token.content));
    // Transformers adds the config's tokens once more, so that their settings count; what was special stays so.
    const bool special = known.special || token.special;
    known = token;
    known.special = special;
  }
}

void join_named_tokens(std::vector<AddedToken>& added, const std::vector<AddedToken>& special,
                       const std::function<std::optional<TokenId>(const std::string& content)>& id_of) {
  std::set<std::string> listed;
  for (const AddedToken& token : added) listed.insert(token.content);
  for (const AddedToken& token : special) {
    if (token.content.empty() || listed.contains(token.content)) continue;
    const std::optional<TokenId> id = id_of(token.content);
    if (!id) continue;
    listed.insert(token.content);
    added.push_back(token);
    added.back().id = *id;
  }
}

void apply_tokenizer_config(TokenizerSpec& spec, const TokenizerConfig& config) {
  if (config.eos) spec.eos = require_token(spec, *config.eos, "eos_token");
  if (!config.add_bos || spec.added_prefix.size() > 1) return;  // several tokens stay as tokenizer.json has them
  spec.added_prefix.clear();
  if (!*config.add_bos) return;
  NIBBLE_REQUIRE(config.bos.has_value(), FormatError, "{}: tokenizer_config.json has add_bos_token but no bos_token",
                 spec.where);
  spec.added_prefix = {require_token(spec, *config.bos, "bos_token")};
}

}  // namespace nibble::model
