#include "model/tokenizer/files/gpt2_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text/excerpt.h"
#include "core/text/json_fields.h"
#include "core/text/strict_json.h"
#include "model/tokenizer/files/text_file.h"
#include "model/tokenizer/files/vocabulary.h"

namespace nibble::model {
namespace {

constexpr const char* kEndOfText = "<|endoftext|>";

/// GPT-2's vocabulary has its one control token among the others and no list of added tokens.
void mark_end_of_text(TokenizerSpec& spec, const nlohmann::json& vocabulary) {
  const bool listed = std::any_of(spec.added.begin(), spec.added.end(),
                                  [](const AddedToken& token) { return token.content == kEndOfText; });
  if (listed || !vocabulary.is_object() || !vocabulary.contains(kEndOfText)) return;
  const JsonFields fields(vocabulary, spec.where);
  const std::uint64_t id = fields.count(kEndOfText);
  NIBBLE_REQUIRE(id < kMaxVocabulary, FormatError, "{}: id {} of {} is not below {}", spec.where, id, kEndOfText,
                 kMaxVocabulary);
  spec.added.push_back({.id = static_cast<TokenId>(id), .content = kEndOfText, .special = true});
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

}  // namespace

TokenizerSpec read_gpt2_files(const std::filesystem::path& vocabulary, const std::filesystem::path& merges,
                              const TokenizerConfig& config) {
  TokenizerSpec spec;
  spec.where = vocabulary.string();
  const nlohmann::json json = parse_strict_json(read_text_file(vocabulary), spec.where);
  join_added_tokens(spec.added, config, spec.where);
  mark_end_of_text(spec, json);
  set_vocabulary(spec, json, spec.where);
  read_merges(spec, read_text_file(merges), merges.string());
  spec.pre_tokenizer.emplace_back(ByteLevelStep{.add_prefix_space = config.add_prefix_space, .use_regex = true});
  spec.decoder.emplace_back(ByteLevelDecoderStep{});
  if (json.contains(kEndOfText)) spec.eos = require_token(spec, kEndOfText, "eos_token");
  apply_tokenizer_config(spec, config);
  return spec;
}

}  // namespace nibble::model
