#include "model/tokenizer/files/gpt2_files.h"

#include <algorithm>
#include <iterator>
#include <set>

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

/// These vocabularies have their control tokens among the others, often without a list of added tokens.
void mark_special(TokenizerSpec& spec, const nlohmann::json& vocabulary, const std::vector<std::string>& special) {
  if (!vocabulary.is_object()) return;
  std::set<std::string_view> listed;
  for (const AddedToken& token : spec.added) listed.insert(token.content);
  const JsonFields fields(vocabulary, spec.where);
  std::vector<AddedToken> marked;
  for (const std::string& content : special) {
    if (content.empty() || !vocabulary.contains(content) || !listed.insert(content).second) continue;
    const std::uint64_t id = fields.count(content);
    NIBBLE_REQUIRE(id < kMaxVocabulary, FormatError, "{}: id {} of {} is not below {}", spec.where, id, content,
                   kMaxVocabulary);
    marked.push_back({.id = static_cast<TokenId>(id), .content = content, .special = true});
  }
  std::move(marked.begin(), marked.end(), std::back_inserter(spec.added));
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

/// How the class that tokenizer_config.json names cuts texts into words.
void set_rules(TokenizerSpec& spec, const TokenizerConfig& config) {
  constexpr std::string_view kFast = "Fast",
                             kGpt2Classes[] = {"", "GPT2Tokenizer", "CodeGenTokenizer", "GPTNeoXTokenizer"};
  const std::string_view named = config.tokenizer_class;
  const std::string_view rules = named.ends_with(kFast) ? named.substr(0, named.size() - kFast.size()) : named;
  const bool prefix = config.add_prefix_space.value_or(false);
  if (rules == "Qwen2Tokenizer") {
    spec.normalizer.emplace_back(UnicodeFormStep{});
    spec.pre_tokenizer.emplace_back(SplitStep{.pattern = std::string(kQwen2Pattern)});
    spec.pre_tokenizer.emplace_back(ByteLevelStep{.add_prefix_space = prefix, .use_regex = false});
    return;
  }
  NIBBLE_REQUIRE(std::ranges::find(kGpt2Classes, rules) != std::end(kGpt2Classes), FormatError,
                 "{}: tokenizer_config.json names {}: expected GPT2Tokenizer, CodeGenTokenizer, GPTNeoXTokenizer or "
                 "Qwen2Tokenizer, whose rules for words are known. Others stand in a tokenizer.json "
                 "(AutoTokenizer.from_pretrained(…).save_pretrained(…) writes one)",
                 spec.where, in_quotes(named));
  if (rules == "GPTNeoXTokenizer")
    spec.normalizer.emplace_back(UnicodeFormStep{});  // the others leave texts as they are
  spec.pre_tokenizer.emplace_back(ByteLevelStep{.add_prefix_space = prefix, .use_regex = true});
}

}  // namespace

TokenizerSpec read_gpt2_files(const std::filesystem::path& vocabulary, const std::filesystem::path& merges,
                              const TokenizerConfig& config) {
  TokenizerSpec spec;
  spec.where = vocabulary.string();
  const nlohmann::json json = parse_strict_json(read_text_file(vocabulary), spec.where);
  join_added_tokens(spec.added, config, spec.where);
  std::vector<std::string> special = config.special;
  special.emplace_back(kEndOfText);  // GPT-2's own files name none
  mark_special(spec, json, special);
  set_vocabulary(spec, json, spec.where);
  read_merges(spec, read_text_file(merges), merges.string());
  set_rules(spec, config);
  spec.decoder.emplace_back(ByteLevelDecoderStep{});
  if (json.contains(kEndOfText)) spec.eos = require_token(spec, kEndOfText, "eos_token");
  apply_tokenizer_config(spec, config);
  return spec;
}

}  // namespace nibble::model
