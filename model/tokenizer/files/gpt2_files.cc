#include "model/tokenizer/files/gpt2_files.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"
#include "core/text/json_fields.h"
#include "core/text/strict_json.h"
#include "model/tokenizer/files/text_file.h"
#include "model/tokenizer/files/vocabulary.h"
#include "model/tokenizer/split/qwen2_pattern.h"

namespace nibble::model {
namespace {

constexpr const char* kEndOfText = "<|endoftext|>";

std::optional<TokenId> id_in(const nlohmann::json& vocabulary, const std::string& content, const std::string& where) {
  if (!vocabulary.is_object() || !vocabulary.contains(content)) return std::nullopt;
  const std::uint64_t id = JsonFields(vocabulary, where).count(content);
  NIBBLE_REQUIRE(id < kMaxVocabulary, FormatError, "{}: id {} of {} is not below {}", where, id, content,
                 kMaxVocabulary);
  return static_cast<TokenId>(id);
}

void read_merges(TokenizerSpec& spec, std::string_view text, const std::string& where) {
  for (std::size_t line_number = 1; !text.empty(); ++line_number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    const std::string place = fmt::format("{}: line {}", where, line_number);
    const std::size_t space = line.find(' ');
    NIBBLE_REQUIRE(space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos, FormatError,
                   "{}: expected two tokens with one space between, got {}", place, in_quotes(line));
    add_merge(spec, line.substr(0, space), line.substr(space + 1), place);
  }
}

/// How a class of tokenizers cuts texts into words.
struct Rules {
  std::string_view tokenizer_class;  ///< as tokenizer_config.json names it, without "Fast"
  std::string_view pattern = {};     ///< of words; empty: GPT-2's
  bool composes = false;             ///< texts are brought into NFC first
};
constexpr Rules kRules[] = {{"GPT2Tokenizer"},
                            {"CodeGenTokenizer"},
                            {.tokenizer_class = "GPTNeoXTokenizer", .composes = true},
                            {"Qwen2Tokenizer", kQwen2Pattern, true}};

/// Of the class that is named; GPT-2's where none is.
const Rules& rules_of(std::string_view named, const std::string& where) {
  constexpr std::string_view kFast = "Fast";
  const std::string_view name = named.ends_with(kFast) ? named.substr(0, named.size() - kFast.size()) : named;
  std::vector<std::string_view> known;
  for (const Rules& rules : kRules) {
    if (name == rules.tokenizer_class || name.empty()) return rules;
    known.push_back(rules.tokenizer_class);
  }
  throw FormatError(
      fmt::format("{}: tokenizer_config.json names {}: expected {}, whose rules for words are known. Others stand in a "
                  "tokenizer.json (AutoTokenizer.from_pretrained(…).save_pretrained(…) writes one)",
                  where, in_quotes(named), fmt::join(known, " or ")));
}

void set_rules(TokenizerSpec& spec, const TokenizerConfig& config) {
  const Rules& rules = rules_of(config.tokenizer_class, spec.where);
  if (rules.composes) spec.normalizer.emplace_back(UnicodeFormStep{});
  if (!rules.pattern.empty()) spec.pre_tokenizer.emplace_back(SplitStep{.pattern = std::string(rules.pattern)});
  spec.pre_tokenizer.emplace_back(
      ByteLevelStep{.add_prefix_space = config.add_prefix_space.value_or(false), .use_regex = rules.pattern.empty()});
}

}  // namespace

TokenizerSpec read_gpt2_files(const std::filesystem::path& vocabulary, const std::filesystem::path& merges,
                              const TokenizerConfig& config) {
  TokenizerSpec spec;
  spec.where = vocabulary.string();
  const nlohmann::json json = parse_strict_json(read_text_file(vocabulary), spec.where);
  join_added_tokens(spec.added, config, spec.where);
  std::vector<AddedToken> special = config.special;
  special.push_back({.content = kEndOfText, .special = true});  // GPT-2's own files name none
  join_named_tokens(spec.added, special, [&](const std::string& content) { return id_in(json, content, spec.where); });
  set_vocabulary(spec, json, spec.where);
  read_merges(spec, read_text_file(merges), merges.string());
  set_rules(spec, config);
  spec.decoder.emplace_back(ByteLevelDecoderStep{});
  if (json.contains(kEndOfText)) spec.eos = require_token(spec, kEndOfText, "eos_token");
  apply_tokenizer_config(spec, config);
  return spec;
}

}  // namespace nibble::model
