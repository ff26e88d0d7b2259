#include "model/gguf/gguf_tokenizer_keys.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/text/excerpt.h"
#include "model/checkpoint/safetensors_file.h"
#include "model/gguf/gguf_pre_tokenizers.h"
#include "model/gguf/gguf_tokenizer.h"
#include "model/tokenizer/split/pre_tokenizer.h"
#include "model/tokenizer/words/own_merges.h"

namespace nibble::model {
namespace {

using PieceKind = TokenizerSpec::PieceKind;

constexpr std::string_view kSpaceMark = "\u2581";

// Letters with and without case, in several scripts, with marks; contractions; numbers of all lengths; punctuation,
// symbols and emoji, alone and in runs; spaces, tabs and line ends, alone, in runs and at the end. All of it in NFC.
constexpr std::string_view kProbe =
    "Hello, world! It's 3.14 o'clock; they'LL pay $1234567.89 (or \u20AC42\u20AC) for 007 -- won't THEY'RE?\n\n"
    "  two  spaces\tand\ttabs \r\n\r\n   \n def f(x_1, y=[0xFF, 10**-5]): return {\"a\": x_1 != y}  # note\n"
    "CamelCaseWord snake_case UPPER lower123mixed 12ab34 1st 22nd \u00BD \u0663\u0664\u0665 \u216B m\u00B2\n"
    "Stra\u00DFe caf\u00E9 na\u00EFve \u0391\u03B8\u03AE\u03BD\u03B1 \u041C\u043E\u0441\u043A\u0432\u0430 "
    "\u05E9\u05DC\u05D5\u05DD \u0645\u0631\u062D\u0628\u0627\u060C \u0928\u092E\u0938\u094D\u0924\u0947\u0964 "
    "\u4F60\u597D\uFF0C\u4E16\u754C\u3002 \u3053\u3093\u306B\u3061\u306F\u30AB\u30BF\u30AB\u30CA "
    "\uC548\uB155\uD558\uC138\uC694 \u0E2A\u0E27\u0E31\u0E2A\u0E14\u0E35 \U0001F680\U0001F600\U0001F600 "
    "\u2026\u2014\u201Cquoted\u201D \u00AB\u00BB a/b\\c~`^|<tag> !!! ??? ... e\u0332 \u00A0\u3000x' 's 'S ''  42\n ";

GgufValue text_value(std::string_view text) { return GgufValue(std::string(text)); }
GgufValue id_value(TokenId id) { return GgufValue(static_cast<std::uint32_t>(id)); }

bool is_byte_level(const TokenizerSpec& spec) {
  return std::any_of(spec.pre_tokenizer.begin(), spec.pre_tokenizer.end(),
                     [](const auto& step) { return std::holds_alternative<ByteLevelStep>(step); });
}

[[noreturn]] void refuse(const TokenizerSpec& spec, std::string_view what) {
  throw InvalidArgument(
      fmt::format("{}: GGUF has no word for {}, so llama.cpp would read texts differently", spec.where, what));
}

std::vector<std::string> words_of(const std::vector<PreTokenizerStep>& steps, const std::string& where) {
  std::vector<std::string> words;
  PreTokenizer(steps, where).split(kProbe, true, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

/// The row of the table that cuts texts as `spec` does, words that are tokens merged or not as `ignore_merges` says;
/// one that also brings them into the same form, if there is one.
const GgufPreTokenizer* row_of(const TokenizerSpec& spec, bool ignore_merges) {
  const std::vector<std::string> own = words_of(spec.pre_tokenizer, spec.where);
  const bool composes = !spec.normalizer.empty();
  const GgufPreTokenizer* found = nullptr;
  const std::vector<std::string>* last = nullptr;  // rows of the same patterns follow each other
  bool same = false;
  for (const GgufPreTokenizer& row : gguf_pre_tokenizers()) {
    if (row.ignore_merges != ignore_merges) continue;
    if (last == nullptr || *last != row.patterns) {
      std::vector<PreTokenizerStep> steps;
      for (const std::string& pattern : row.patterns) steps.emplace_back(SplitStep{.pattern = pattern});
      steps.emplace_back(ByteLevelStep{.add_prefix_space = false, .use_regex = false});
      same = words_of(steps, std::string(row.name)) == own;
      last = &row.patterns;
    }
    if (same && (found == nullptr || (found->compose != composes && row.compose == composes))) found = &row;
  }
  return found;
}

const GgufPreTokenizer& find_pre_tokenizer(const TokenizerSpec& spec) {
  if (const GgufPreTokenizer* const row = row_of(spec, spec.ignore_merges)) return *row;
  const GgufPreTokenizer* const other = row_of(spec, !spec.ignore_merges);
  if (other != nullptr && merges_make_every_token(spec)) return *other;
  refuse(spec, other == nullptr ? "its way of cutting texts (no tokenizer.ggml.pre that is known does the same)"
                                : fmt::format("words that are tokens and {}made by merges (ignore_merges: {}) where "
                                              "texts are cut like this",
                                              spec.ignore_merges ? "not " : "", spec.ignore_merges));
}

/// <0x41>
bool is_byte(std::string_view token) {
  unsigned byte = 0;
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return false;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return error == std::errc() && end == token.data() + 5;
}

/// Which tokens the merges of a list make.
std::vector<bool> merged(const TokenizerSpec& spec) {
  std::vector<bool> made(spec.tokens.size());
  for (const TokenizerSpec::Merge& merge : spec.merges) made.at(merge.merged) = true;
  return made;
}

/// Whether the tokenizer looks for the added token where spaces are '\u2581' already, and else all is as it was.
/// (Others that are normalised are looked for with a space in front, or before spaces are spelled so.)
bool is_found_escaped(const TokenizerSpec& spec, const AddedToken& token) {
  return token.normalized && spec.normalizer.size() == 1 && std::holds_alternative<ReplaceStep>(spec.normalizer[0]);
}

/// Of an added token that is no control token. If the tokenizer looks for it in texts as they are, one that spells
/// spaces '\u2581' is found in none, and comes of merges as normal tokens do. llama.cpp prints those alone with spaces
/// for it.
PieceKind kind_of_text(const TokenizerSpec& spec, const AddedToken& token, bool is_merged) {
  const bool spells_space = token.content.find(kSpaceMark) != std::string::npos;
  return is_merged && spells_space && !is_found_escaped(spec, token) ? PieceKind::kNormal : PieceKind::kUserDefined;
}

/// With `prefix`, llama.cpp puts a space behind every user-defined piece too. Those that spell spaces are left to the
/// merges by score, which make them as they make any other.
std::vector<PieceKind> kinds_of(const TokenizerSpec& spec, bool prefix) {
  std::vector<PieceKind> kinds = spec.kinds;
  kinds.resize(spec.tokens.size(), PieceKind::kNormal);
  for (std::size_t id = 0; prefix && id < kinds.size(); ++id)
    if (kinds[id] == PieceKind::kUserDefined && spec.tokens[id].find(kSpaceMark) != std::string::npos)
      kinds[id] = PieceKind::kNormal;
  const std::vector<bool> made = merged(spec);
  for (const AddedToken& token : spec.added)
    if (spec.kind(token.id) == PieceKind::kNormal)
      kinds.at(token.id) = token.special ? PieceKind::kControl : kind_of_text(spec, token, made[token.id]);
  if (!spec.byte_fallback) return kinds;
  for (std::size_t id = 0; id < kinds.size(); ++id)
    if (is_byte(spec.tokens[id])) kinds[id] = PieceKind::kByte;
  if (spec.unknown) kinds.at(*spec.unknown) = PieceKind::kUnknown;
  return kinds;
}

std::string with_spaces(std::string_view token) {
  std::string text;
  for (std::size_t at = token.find(kSpaceMark); at != std::string_view::npos; at = token.find(kSpaceMark)) {
    text.append(token.substr(0, at)) += ' ';
    token.remove_prefix(at + kSpaceMark.size());
  }
  return text.append(token);
}

/// Tokens as llama.cpp looks for them: user-defined ones in texts whose spaces are still spaces. Those that
/// SentencePiece and tokenizers look for behind that are spelled with spaces.
std::vector<std::string> spellings(const TokenizerSpec& spec, const std::vector<PieceKind>& kinds) {
  std::vector<std::string> tokens = spec.tokens;
  if (!spec.byte_fallback) return tokens;  // byte-level BPE, which spells spaces otherwise
  for (std::size_t id = 0; id < tokens.size(); ++id)
    if (spec.kind(static_cast<TokenId>(id)) == PieceKind::kUserDefined && kinds.at(id) == PieceKind::kUserDefined)
      tokens[id] = with_spaces(tokens[id]);
  for (const AddedToken& token : spec.added)
    if (is_found_escaped(spec, token) && kinds.at(token.id) == PieceKind::kUserDefined)
      tokens[token.id] = with_spaces(tokens[token.id]);
  return tokens;
}

/// How many of the tokens have a row of the embedding. Those behind, which an encoder of images or sounds would fill
/// in, no text is made of. Throws for one that texts are made of.
std::size_t tokens_with_rows(const TokenizerSpec& spec, std::size_t vocabulary) {
  if (spec.tokens.size() <= vocabulary) return spec.tokens.size();
  std::vector<bool> ordinary(spec.tokens.size());
  for (std::size_t id = 0; id < ordinary.size(); ++id) ordinary[id] = !spec.is_hole(static_cast<TokenId>(id));
  for (const AddedToken& token : spec.added) ordinary.at(token.id) = false;
  for (const TokenizerSpec::Merge& merge : spec.merges) ordinary.at(merge.merged) = true;
  const auto found = std::find(ordinary.begin() + static_cast<std::ptrdiff_t>(vocabulary), ordinary.end(), true);
  NIBBLE_REQUIRE(found == ordinary.end(), InvalidArgument,
                 "{}: {} tokens for a model with a vocabulary of {}, which llama.cpp refuses: token {} ('{}') is no "
                 "added one that could be left out",
                 spec.where, spec.tokens.size(), vocabulary, found - ordinary.begin(),
                 excerpt(spec.tokens[static_cast<std::size_t>(found - ordinary.begin())]));
  return vocabulary;
}

/// What llama.cpp's own converter calls an id that no token has.
std::string padding(std::size_t id) { return fmt::format("[PAD{}]", id); }

/// Tokens and what they are, cut and filled up to `vocabulary`.
void add_tokens(GgufMetadata& metadata, const TokenizerSpec& spec, std::size_t vocabulary, bool prefix = false) {
  const std::size_t count = tokens_with_rows(spec, vocabulary);
  const std::vector<PieceKind> known = kinds_of(spec, prefix);
  std::vector<std::string> tokens = spellings(spec, known);
  tokens.resize(count);
  std::vector<std::int32_t> kinds;
  for (std::size_t id = 0; id < count; ++id) {
    if (spec.is_hole(static_cast<TokenId>(id))) tokens[id] = padding(id);
    kinds.push_back(static_cast<std::int32_t>(known[id]));
  }
  for (std::size_t id = count; id < vocabulary; ++id) {
    tokens.push_back(padding(id));
    kinds.push_back(static_cast<std::int32_t>(PieceKind::kUnused));
  }
  std::unordered_set<std::string_view> seen;
  for (std::size_t id = 0; id < tokens.size(); ++id)
    NIBBLE_REQUIRE(seen.insert(tokens[id]).second, InvalidArgument,
                   "{}: token {} is spelled as an earlier one, '{}', which llama.cpp does not take", spec.where, id,
                   excerpt(tokens[id]));
  metadata.add("tokenizer.ggml.tokens", GgufValue::strings(tokens));
  metadata.add("tokenizer.ggml.token_type", GgufValue::integers(kinds));
}

void add_byte_level(GgufMetadata& metadata, const TokenizerSpec& spec, std::size_t vocabulary) {
  for (const NormalizerStep& step : spec.normalizer) {
    const auto* const form = std::get_if<UnicodeFormStep>(&step);
    if (form == nullptr || form->form != UnicodeFormStep::Form::kNfc) refuse(spec, "its normalisation of texts");
  }
  for (const PreTokenizerStep& step : spec.pre_tokenizer) {
    const auto* const bytes = std::get_if<ByteLevelStep>(&step);
    if (bytes != nullptr && bytes->add_prefix_space) refuse(spec, "a space before texts of byte-level BPE");
  }
  metadata.add("tokenizer.ggml.model", text_value("gpt2"));
  metadata.add("tokenizer.ggml.pre", text_value(find_pre_tokenizer(spec).name));
  add_tokens(metadata, spec, vocabulary);
  std::vector<std::string> merges;
  merges.reserve(spec.merges.size());
  for (const TokenizerSpec::Merge& merge : spec.merges) {
    const std::string &left = spec.tokens.at(merge.left), &right = spec.tokens.at(merge.right);
    if (left.find(' ') != std::string::npos || right.find(' ') != std::string::npos)
      refuse(spec, "a merge of tokens with spaces");
    merges.push_back(left + " " + right);
  }
  metadata.add("tokenizer.ggml.merges", GgufValue::strings(merges));
}

/// Whether texts get a space in front. Throws for what else happens to them, other than that spaces are spelled '▁'.
bool prefixes_space(const TokenizerSpec& spec) {
  bool prefix = false, escapes = false;
  for (const NormalizerStep& step : spec.normalizer) {
    const auto* const prepend = std::get_if<PrependStep>(&step);
    const auto* const replace = std::get_if<ReplaceStep>(&step);
    const auto* const piece = std::get_if<SentencePieceStep>(&step);
    if (prepend != nullptr && (prepend->text == kSpaceMark || prepend->text == " ")) {
      prefix = true;
    } else if (replace != nullptr && replace->literal && replace->pattern == " " && replace->to == kSpaceMark) {
      escapes = true;
    } else if (piece != nullptr && piece->charsmap.empty() && piece->escape_whitespaces &&
               !piece->remove_extra_whitespaces && !piece->whitespace_as_suffix) {
      prefix = piece->add_dummy_prefix;
      escapes = true;
    } else {
      refuse(spec, "its normalisation of texts");
    }
  }
  for (const PreTokenizerStep& step : spec.pre_tokenizer) {
    const auto* const metaspace = std::get_if<MetaspaceStep>(&step);
    const auto* const split = std::get_if<SplitStep>(&step);
    if (metaspace != nullptr && metaspace->replacement == kSpaceMark) {
      prefix = metaspace->prepend != MetaspaceStep::Prepend::kNever;
      escapes = true;
    } else if (split == nullptr || !split->literal || split->pattern != " " ||
               !escapes) {  // no space is left to cut at
      refuse(spec, "its way of cutting texts");
    }
  }
  if (!escapes) refuse(spec, "spaces that are not spelled '\u2581'");
  return prefix;
}

std::size_t utf8_length(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// Neighbours merge by score, the highest first: the earlier the merge that makes a token, the higher its score. Tokens
/// of several characters that no merge makes come last.
std::vector<float> scores_of(const TokenizerSpec& spec) {
  std::vector<float> scores(spec.scores.begin(), spec.scores.end());
  if (spec.model == TokenizerSpec::Model::kScoredBpe) return scores;
  scores.assign(spec.tokens.size(), 0.0f);
  std::vector<bool> made(spec.tokens.size());
  for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const TokenId token = spec.merges[rank].merged;
    if (!made.at(token)) scores[token] = -static_cast<float>(rank);
    made[token] = true;
  }
  for (std::size_t id = 0; id < made.size(); ++id)
    if (!made[id] && utf8_length(spec.tokens[id]) > 1) scores[id] = -static_cast<float>(spec.merges.size());
  return scores;
}

void add_sentencepiece(GgufMetadata& metadata, const TokenizerSpec& spec, std::size_t vocabulary) {
  if (!spec.byte_fallback) refuse(spec, "BPE of characters without tokens for bytes");
  const bool prefix = prefixes_space(spec);
  metadata.add("tokenizer.ggml.model", text_value("llama"));
  metadata.add("tokenizer.ggml.pre", text_value("default"));
  add_tokens(metadata, spec, vocabulary, prefix);
  std::vector<float> scores = scores_of(spec);
  scores.resize(vocabulary, 0.0f);
  metadata.add("tokenizer.ggml.scores", GgufValue::floats(scores));
  metadata.add("tokenizer.ggml.add_space_prefix", GgufValue(prefix));
}

std::optional<TokenId> end_of(const TokenizerSpec& spec, const GgufTokenizerFacts& facts) {
  return spec.eos ? spec.eos : facts.eos;
}

/// The other ids that end a text, each once.
std::vector<TokenId> further_ends(const TokenizerSpec& spec, const GgufTokenizerFacts& facts) {
  std::vector<TokenId> ends;
  for (const TokenId id : facts.stop_tokens)
    if (id != end_of(spec, facts) && id < facts.vocabulary && std::find(ends.begin(), ends.end(), id) == ends.end())
      ends.push_back(id);
  return ends;
}

/// Names of further ends: of a turn and of a message. llama.cpp stops at them as at the end of a text.
constexpr std::string_view kFurtherEnds[] = {"eot", "eom"};

/// What llama.cpp takes for the end of a text where a file names none.
TokenId usual_end(const TokenizerSpec& spec) { return is_byte_level(spec) ? 11 : 2; }

/// Whether llama.cpp makes of the name alone (gguf_model_name()) that special tokens take the spaces behind them.
bool is_like_phi3(const TokenizerSpec& spec) {
  const auto is_there = [&](std::string_view token) {
    return std::find(spec.tokens.begin(), spec.tokens.end(), token) != spec.tokens.end();
  };
  return std::any_of(spec.added.begin(), spec.added.end(),
                     [](const AddedToken& token) { return token.special && token.right_strip; }) &&
         is_there("<unk>") && is_there("<s>") && is_there("</s>") && is_there("<|endoftext|>");
}

/// Added tokens that take the spaces beside them, or are no part of longer words: GGUF has no word for that.
std::vector<std::string> choosy_tokens(const TokenizerSpec& spec, std::size_t rows) {
  std::vector<std::string> tokens;
  const bool known = is_like_phi3(spec);
  for (const AddedToken& token : spec.added)
    if (token.id < rows && (token.left_strip || token.single_word || (token.right_strip && !(known && token.special))))
      tokens.push_back(excerpt(token.content));
  return tokens;
}

void add_ids(GgufMetadata& metadata, const TokenizerSpec& spec, const GgufTokenizerFacts& facts) {
  const auto add = [&](std::string_view name, std::optional<TokenId> id) {
    if (id && *id < facts.vocabulary) metadata.add(fmt::format("tokenizer.ggml.{}_token_id", name), id_value(*id));
  };
  const bool adds_bos = spec.added_prefix.size() == 1;
  add("bos", adds_bos ? spec.added_prefix.front() : facts.bos);
  add("eos", end_of(spec, facts));
  const std::vector<TokenId> ends = further_ends(spec, facts);
  for (std::size_t i = 0; i < std::min(ends.size(), std::size(kFurtherEnds)); ++i) add(kFurtherEnds[i], ends[i]);
  add("unknown", spec.unknown);
  metadata.add("tokenizer.ggml.add_bos_token", GgufValue(adds_bos));
  metadata.add("tokenizer.ggml.add_eos_token", GgufValue(false));
}

/// Whether only the beginning of a whole text gets a space in front, not what follows a special token.
bool prefixes_first_alone(const TokenizerSpec& spec) {
  return std::any_of(spec.pre_tokenizer.begin(), spec.pre_tokenizer.end(), [](const PreTokenizerStep& step) {
    const auto* const metaspace = std::get_if<MetaspaceStep>(&step);
    return metaspace != nullptr && metaspace->prepend == MetaspaceStep::Prepend::kFirst;
  });
}

void add_chat_templates(GgufMetadata& metadata, const GgufTokenizerFacts& facts) {
  std::vector<std::string> names;
  for (const auto& [name, text] : facts.chat_templates) {
    metadata.add(name.empty() ? "tokenizer.chat_template" : "tokenizer.chat_template." + name, text_value(text));
    if (!name.empty()) names.push_back(name);
  }
  if (!names.empty()) metadata.add("tokenizer.chat_templates", GgufValue::strings(names));
}

}  // namespace

void add_gguf_tokenizer(GgufMetadata& metadata, const TokenizerSpec& spec, const GgufTokenizerFacts& facts) {
  if (spec.model == TokenizerSpec::Model::kUnigram) refuse(spec, "a Unigram vocabulary in front of such a network");
  if (is_byte_level(spec)) {
    add_byte_level(metadata, spec, facts.vocabulary);
  } else {
    add_sentencepiece(metadata, spec, facts.vocabulary);
  }
  add_ids(metadata, spec, facts);
  add_chat_templates(metadata, facts);
}

std::vector<std::string> gguf_tokenizer_notes(const TokenizerSpec& spec, const GgufTokenizerFacts& facts) {
  std::vector<std::string> notes;
  const std::size_t rows = tokens_with_rows(spec, facts.vocabulary);
  std::vector<std::size_t> left_out;
  for (std::size_t id = rows; id < spec.tokens.size(); ++id)
    if (!spec.is_hole(static_cast<TokenId>(id))) left_out.push_back(id);
  if (!left_out.empty())
    notes.push_back(fmt::format("added tokens from id {} ('{}') on are left out, {} in all: the embedding has {} rows",
                                left_out[0], excerpt(spec.tokens[left_out[0]]), left_out.size(), rows));
  if (const std::vector<TokenId> ends = further_ends(spec, facts); ends.size() > std::size(kFurtherEnds))
    notes.push_back(fmt::format(
        "GGUF has keys for {} ids that end a text: llama.cpp stops at {} only where it knows their spelling",
        1 + std::size(kFurtherEnds), fmt::join(ends.begin() + std::size(kFurtherEnds), ends.end(), ", ")));
  if (const auto end = end_of(spec, facts); !end || *end >= facts.vocabulary)
    notes.push_back(fmt::format("no end of a text is named: llama.cpp takes token {} for it", usual_end(spec)));
  if (const std::vector<std::string> tokens = choosy_tokens(spec, rows); !tokens.empty())
    notes.push_back(fmt::format(
        "{} added token{} ('{}'{}) take spaces beside them or stand alone (lstrip, rstrip, single_word), which GGUF "
        "cannot say: texts with them get other ids",
        tokens.size(), tokens.size() == 1 ? "" : "s", tokens[0], tokens.size() == 1 ? "" : ", …"));
  if (spec.added_prefix.size() > 1)
    notes.push_back(fmt::format(
        "GGUF has a key for one token before a text: llama.cpp puts none of the {} there that this tokenizer does",
        spec.added_prefix.size()));
  if (prefixes_first_alone(spec))
    notes.push_back(
        "llama.cpp puts a space behind every special token, this tokenizer at the beginning of a text alone: prompts "
        "with special tokens in them get other ids");
  return notes;
}

std::string gguf_model_name(std::string name, const TokenizerSpec& spec) {
  const bool wanted = is_like_phi3(spec);
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c; });
  if (wanted && (lower.find("phi-3") != std::string::npos || lower.find("phi3") != std::string::npos)) return name;
  if (wanted) return name + " (phi-3)";
  for (const auto& [key, other] : {std::pair<std::string_view, std::string_view>("phi-3", "phi_3"), {"phi3", "phi_3"}})
    for (std::size_t at = lower.find(key); at != std::string::npos; at = lower.find(key)) {
      name.replace(at, key.size(), other);
      lower.replace(at, key.size(), other);
    }
  return name;
}

void check_gguf_tokenizer(const GgufMetadata& metadata, const Tokenizer& own) {
  const std::vector<TokenId> expected = own.encode(kProbe), got = make_gguf_tokenizer(metadata)->encode(kProbe);
  const auto [at, other] = std::mismatch(expected.begin(), expected.end(), got.begin(), got.end());
  NIBBLE_REQUIRE(at == expected.end() && other == got.end(), InvalidArgument,
                 "tokenizer: what GGUF can say of it cuts texts differently: after '{}' expected token {}, got {}",
                 excerpt(own.decode(std::vector<TokenId>(at - std::min<std::ptrdiff_t>(at - expected.begin(), 4), at))),
                 at == expected.end() ? "none" : std::to_string(*at),
                 other == got.end() ? "none" : std::to_string(*other));
}

}  // namespace nibble::model
