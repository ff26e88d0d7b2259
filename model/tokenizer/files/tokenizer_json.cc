#include "model/tokenizer/files/tokenizer_json.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "core/error.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"
#include "core/text/strict_json.h"
#include "model/tokenizer/files/text_file.h"
#include "model/tokenizer/files/tokenizer_json_parts.h"
#include "model/tokenizer/files/vocabulary.h"

namespace nibble::model {
namespace {

std::vector<AddedToken> read_added_tokens(const JsonFields& file) {
  std::vector<AddedToken> added;
  if (!file.has("added_tokens")) return added;
  for (const JsonFields& token : file.objects("added_tokens"))
    added.push_back(read_added_token(token, token.count("id")));
  return added;
}

/// The ids of the tokens in "vocab", whose shape is the model's: an object, or a list of tokens with their scores, of
/// which the later of two alike counts. Anything that is none is refused where the vocabulary is read.
std::unordered_map<std::string_view, TokenId> ids_in(const nlohmann::json& vocabulary) {
  std::unordered_map<std::string_view, TokenId> ids;
  if (vocabulary.is_object()) {
    for (const auto& [token, id] : vocabulary.get_ref<const nlohmann::json::object_t&>())
      if (id.is_number_unsigned() && id.get<std::uint64_t>() < kMaxVocabulary) ids[token] = id.get<TokenId>();
  } else if (vocabulary.is_array() && vocabulary.size() <= kMaxVocabulary) {
    for (TokenId id = 0; id < vocabulary.size(); ++id)
      if (const auto& entry = vocabulary[id]; entry.is_array() && !entry.empty() && entry[0].is_string())
        ids[entry[0].get_ref<const std::string&>()] = id;
  }
  return ids;
}

/// "left right", or ["left", "right"].
void read_merges(TokenizerSpec& spec, const JsonFields& model) {
  for (const nlohmann::json& json : model.list("merges")) {
    const auto is_text = [](const nlohmann::json& item) { return item.is_string(); };
    if (json.is_array() && json.size() == 2 && std::all_of(json.begin(), json.end(), is_text)) {
      add_merge(spec, json[0].get_ref<const std::string&>(), json[1].get_ref<const std::string&>(), model.what());
      continue;
    }
    const std::string_view text = json.is_string() ? std::string_view(json.get_ref<const std::string&>()) : "";
    const std::size_t space = text.find(' ');
    NIBBLE_REQUIRE(space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos, FormatError,
                   "{}: merge {} must be two tokens, got {}", model.what(), spec.merges.size(), in_quotes(json.dump()));
    add_merge(spec, text.substr(0, space), text.substr(space + 1), model.what());
  }
}

void refuse_if_set(const JsonFields& model, const char* name) {
  const bool is_set = model.has(name) && model.at(name, "a text") != "";
  NIBBLE_REQUIRE(!is_set, FormatError, "{}: '{}' is not supported", model.what(), name);
}

void read_bpe(TokenizerSpec& spec, const JsonFields& model) {
  model.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                    "byte_fallback", "ignore_merges", "vocab", "merges"});
  NIBBLE_REQUIRE(!model.has("dropout") || model.at("dropout", "a number") == 0.0, FormatError,
                 "{}: 'dropout' is not supported, unless it is 0", model.what());
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) refuse_if_set(model, name);
  set_vocabulary(spec, model.at("vocab", "an object"), model.what() + ": vocab");
  read_merges(spec, model);
  spec.ignore_merges = model.boolean_or("ignore_merges", false);
  spec.byte_fallback = model.boolean_or("byte_fallback", false);
  spec.fuse_unknown = model.boolean_or("fuse_unk", false);
  if (model.has("unk_token") && !model.text("unk_token").empty()) {
    spec.unknown = require_token(spec, model.text("unk_token"), "unk_token");
  }
}

/// [["token", score], …]; the position is the id.
void read_unigram(TokenizerSpec& spec, const JsonFields& model) {
  model.allow_only({"type", "unk_id", "vocab", "byte_fallback"});
  spec.model = TokenizerSpec::Model::kUnigram;
  std::vector<std::string> tokens;
  for (const nlohmann::json& entry : model.list("vocab")) {
    NIBBLE_REQUIRE(entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number(), FormatError,
                   "{}: vocab[{}] must be a token and its score, got {}", model.what(), tokens.size(),
                   in_quotes(entry.dump()));
    NIBBLE_REQUIRE(tokens.size() < kMaxVocabulary, FormatError, "{}: there are more than {} tokens", model.what(),
                   kMaxVocabulary);
    tokens.push_back(entry[0].get<std::string>());
    spec.scores.push_back(entry[1].get<double>());
  }
  NIBBLE_REQUIRE(!tokens.empty(), FormatError, "{}: the vocabulary must be a list with a token or more", model.what());
  std::vector<TokenizerSpec::PieceKind> kinds;
  append_added_tokens(spec, tokens, kinds);
  spec.scores.resize(tokens.size(), spec.scores.front());
  set_tokens(spec, std::move(tokens), std::move(kinds));
  spec.byte_fallback = model.boolean_or("byte_fallback", false);
  if (!model.has("unk_id")) return;
  const std::uint64_t unknown = model.count("unk_id");
  NIBBLE_REQUIRE(unknown < spec.tokens.size(), FormatError, "{}: 'unk_id' {} is not below the vocabulary size {}",
                 model.what(), unknown, spec.tokens.size());
  spec.unknown = static_cast<TokenId>(unknown);
}

void read_model(TokenizerSpec& spec, const JsonFields& model) {
  const std::string type = model.has("type") ? model.text("type") : "BPE";
  if (type == "BPE") {
    read_bpe(spec, model);
  } else if (type == "Unigram") {
    read_unigram(spec, model);
  } else {
    throw FormatError(
        fmt::format("{}: type {} is not supported; supported are BPE, Unigram", model.what(), in_quotes(type)));
  }
}

}  // namespace

TokenizerSpec read_tokenizer_json(const std::filesystem::path& path, const TokenizerConfig& config) {
  const nlohmann::json json = parse_strict_json(read_text_file(path), path.string());
  const JsonFields file(json, path.string());
  file.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                   "decoder", "model"});
  NIBBLE_REQUIRE(file.text("version") == "1.0", FormatError, "{}: version {} is not supported, only '1.0' is",
                 file.what(), in_quotes(file.text("version")));
  TokenizerSpec spec;
  spec.where = file.what();
  spec.added = read_added_tokens(file);
  join_added_tokens(spec.added, config, spec.where);
  const JsonFields model = file.object("model");
  if (model.has("vocab") && !config.special.empty()) {  // transformers adds named tokens that are no added ones yet
    const auto ids = ids_in(model.at("vocab", "a vocabulary"));
    join_named_tokens(spec.added, config.special, [&](const std::string& token) {
      const auto found = ids.find(token);
      return found == ids.end() ? std::nullopt : std::optional(found->second);
    });
  }
  read_model(spec, model);
  if (file.has("normalizer")) read_normalizer(spec, file.object("normalizer"));
  if (file.has("pre_tokenizer")) read_pre_tokenizer(spec, file.object("pre_tokenizer"));
  if (file.has("post_processor")) read_post_processor(spec, file.object("post_processor"));
  NIBBLE_REQUIRE(file.has("decoder"), FormatError, "{}: a tokenizer without a decoder is not supported", spec.where);
  read_decoder(spec, file.object("decoder"));
  apply_tokenizer_config(spec, config);
  return spec;
}

}  // namespace nibble::model
