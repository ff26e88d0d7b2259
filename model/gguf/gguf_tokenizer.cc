#include "model/gguf/gguf_tokenizer.h"

#include <algorithm>

#include "core/error.h"
#include "core/text/excerpt.h"
#include "core/text/suggest.h"
#include "model/checkpoint/safetensors_file.h"
#include "model/gguf/gguf_pre_tokenizers.h"
#include "model/gguf/gguf_tokenizer_spec.h"
#include "model/tokenizer/files/vocabulary.h"
#include "model/tokenizer/pipeline.h"

namespace nibble::model {
namespace {

using PieceKind = TokenizerSpec::PieceKind;

constexpr std::string_view kModel = "tokenizer.ggml.model", kPre = "tokenizer.ggml.pre";
constexpr std::string_view kTokens = "tokenizer.ggml.tokens", kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kScores = "tokenizer.ggml.scores", kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kSpace = "\u2581";

const GgufArray& need_array(const GgufMetadata& metadata, std::string_view key, GgufType of) {
  const GgufArray* const array = metadata.array(key, of);
  NIBBLE_REQUIRE(array != nullptr, FormatError, "{}: expected a key '{}' with an array of {}, there is none",
                 metadata.name(), key, gguf_type_name(of));
  return *array;
}

void check_length(const GgufMetadata& metadata, std::string_view key, std::size_t size, std::size_t tokens) {
  NIBBLE_REQUIRE(size == tokens, FormatError, "{}: '{}' has {} entries for {} tokens", metadata.name(), key, size,
                 tokens);
}

std::vector<std::string> read_tokens(const GgufMetadata& metadata) {
  const GgufArray& array = need_array(metadata, kTokens, GgufType::kString);
  NIBBLE_REQUIRE(array.size <= kMaxVocabulary, FormatError, "{}: '{}' has {} entries, the limit is {}", metadata.name(),
                 kTokens, array.size, kMaxVocabulary);
  std::vector<std::string> tokens(array.size);
  for (std::size_t i = 0; i < array.size; ++i) tokens[i] = array.text(i);
  return tokens;
}

std::vector<PieceKind> read_kinds(const GgufMetadata& metadata, std::size_t tokens) {
  const GgufArray* const array = metadata.array_of_integers(kTypes);
  if (array == nullptr) return {};
  check_length(metadata, kTypes, array->size, tokens);
  std::vector<PieceKind> kinds(tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    const std::int64_t kind = array->integer(i).value_or(-1);
    NIBBLE_REQUIRE(kind >= 0 && kind <= static_cast<std::int64_t>(PieceKind::kByte), FormatError,
                   "{}: '{}' is {} for token {}; expected 0 to 6", metadata.name(), kTypes, kind, i);
    kinds[i] = kind == 0 ? PieceKind::kNormal : static_cast<PieceKind>(kind);  // 0: "undefined"
  }
  return kinds;
}

/// The tokens that are recognised in texts before anything is cut or merged.
std::vector<AddedToken> added_tokens(const GgufMetadata& metadata, const TokenizerSpec& spec) {
  // Phi-3's take the white space behind them along, which no key tells; llama.cpp knows it by the name too.
  const std::string* const architecture = metadata.text("general.architecture");
  const bool phi3 =
      architecture != nullptr && *architecture == "phi3" && spec.model == TokenizerSpec::Model::kScoredBpe;
  std::vector<AddedToken> added;
  for (std::size_t i = 0; i < spec.kinds.size(); ++i) {
    const PieceKind kind = spec.kinds[i];
    const bool special = kind == PieceKind::kControl || kind == PieceKind::kUnknown;
    if ((!special && kind != PieceKind::kUserDefined) || spec.tokens[i].empty()) continue;
    AddedToken token;
    token.id = static_cast<TokenId>(i);
    token.content = spec.tokens[i];
    token.special = special;
    const std::string& text = token.content;
    token.right_strip =
        phi3 && (special || text == "</s>") && text != "<unk>" && text != "<s>" && text != "<|endoftext|>";
    added.push_back(std::move(token));
  }
  return added;
}

std::optional<TokenId> token_id(const GgufMetadata& metadata, std::string_view key, std::size_t tokens) {
  const auto id = metadata.natural(key);
  if (!id) return std::nullopt;
  NIBBLE_REQUIRE(*id < tokens, FormatError, "{}: '{}' is {}, but there are {} tokens", metadata.name(), key, *id,
                 tokens);
  return static_cast<TokenId>(*id);
}

/// Fills in BPE by merges. Returns whether a BOS is added where no key tells.
bool fill_byte_level(TokenizerSpec& spec, const GgufMetadata& metadata) {
  const std::string* const name = metadata.text(kPre);
  const GgufPreTokenizer* const pre = find_gguf_pre_tokenizer(name == nullptr ? "default" : *name);
  if (pre == nullptr) {
    std::vector<std::string_view> known;
    for (const GgufPreTokenizer& row : gguf_pre_tokenizers()) known.push_back(row.name);
    throw FormatError(fmt::format("{}: '{}' is '{}', a way of cutting texts that is not known{}; known are {}",
                                  metadata.name(), kPre, excerpt(*name), did_you_mean(*name, known),
                                  fmt::join(known, ", ")));
  }
  const GgufArray& merges = need_array(metadata, kMerges, GgufType::kString);
  spec.merges.reserve(merges.size);
  for (std::size_t i = 0; i < merges.size; ++i) {
    const std::string_view merge = merges.text(i);
    const std::size_t space = merge.find(' ', 1);
    NIBBLE_REQUIRE(space != std::string_view::npos && space + 1 < merge.size(), FormatError,
                   "{}: entry {} of '{}' should be two tokens with a space between, but is '{}'", metadata.name(), i,
                   kMerges, excerpt(merge));
    add_merge(spec, merge.substr(0, space), merge.substr(space + 1), spec.where);
  }
  spec.ignore_merges = pre->ignore_merges;
  if (pre->compose) spec.normalizer.emplace_back(UnicodeFormStep{});
  for (const std::string& pattern : pre->patterns) spec.pre_tokenizer.emplace_back(SplitStep{.pattern = pattern});
  spec.pre_tokenizer.emplace_back(ByteLevelStep{.add_prefix_space = false, .use_regex = false});
  spec.decoder = {ByteLevelDecoderStep{}};
  return pre->add_bos;
}

/// Fills in BPE by scores.
void fill_sentencepiece(TokenizerSpec& spec, const GgufMetadata& metadata) {
  const GgufArray& scores = need_array(metadata, kScores, GgufType::kF32);
  check_length(metadata, kScores, scores.size, spec.tokens.size());
  spec.scores.resize(scores.size);
  for (std::size_t i = 0; i < scores.size; ++i) spec.scores[i] = static_cast<double>(scores.number(i));
  spec.byte_fallback = true;
  spec.unknown = token_id(metadata, "tokenizer.ggml.unknown_token_id", spec.tokens.size());
  if (!spec.unknown && !spec.tokens.empty()) spec.unknown = 0;  // SentencePiece's own
  const bool prefix = metadata.truth("tokenizer.ggml.add_space_prefix").value_or(true);
  if (prefix) spec.normalizer.emplace_back(PrependStep{" "});
  spec.normalizer.emplace_back(ReplaceStep{.pattern = " ", .to = std::string(kSpace)});
  spec.decoder = {ReplaceStep{.pattern = std::string(kSpace), .to = " "}, ByteFallbackStep{}, FuseStep{}};
  if (prefix) spec.decoder.emplace_back(StripStep{.content = " ", .start = 1});
}

}  // namespace

TokenizerSpec read_gguf_tokenizer(const GgufMetadata& metadata) {
  const std::string& model = metadata.need_text(kModel);
  NIBBLE_REQUIRE(model == "gpt2" || model == "llama", FormatError,
                 "{}: '{}' is '{}'; expected 'gpt2' (byte-level BPE) or 'llama' (SentencePiece BPE)", metadata.name(),
                 kModel, excerpt(model));
  const bool byte_level = model == "gpt2";
  TokenizerSpec spec;
  spec.where = metadata.name();
  spec.model = byte_level ? TokenizerSpec::Model::kBpe : TokenizerSpec::Model::kScoredBpe;
  std::vector<std::string> tokens = read_tokens(metadata);
  std::vector<PieceKind> kinds = read_kinds(metadata, tokens.size());
  set_tokens(spec, std::move(tokens), std::move(kinds));
  bool add_bos = true;
  if (byte_level) {
    add_bos = fill_byte_level(spec, metadata);
  } else {
    fill_sentencepiece(spec, metadata);
  }
  spec.added = added_tokens(metadata, spec);
  check_added_tokens(spec, spec.where);
  // Found in texts as they are, before spaces are spelled '\u2581'. Behind that llama.cpp merges them as any other,
  // where SentencePiece would look for them once more.
  if (!byte_level) std::replace(spec.kinds.begin(), spec.kinds.end(), PieceKind::kUserDefined, PieceKind::kNormal);
  const std::size_t count = spec.tokens.size();
  const auto bos = token_id(metadata, "tokenizer.ggml.bos_token_id", count);
  if (metadata.truth("tokenizer.ggml.add_bos_token").value_or(add_bos) && bos) spec.added_prefix = {*bos};
  spec.eos = token_id(metadata, "tokenizer.ggml.eos_token_id", count);
  return spec;
}

std::shared_ptr<const Tokenizer> make_gguf_tokenizer(const GgufMetadata& metadata) {
  return make_tokenizer(read_gguf_tokenizer(metadata));
}

bool has_gguf_tokenizer(const GgufMetadata& metadata) {
  const std::string* const model = metadata.text(kModel);
  return model != nullptr && *model != "none" && *model != "no_vocab";
}

NamedTokens gguf_special_tokens(const GgufMetadata& metadata) {
  const GgufArray* const tokens = metadata.array(kTokens, GgufType::kString);
  NamedTokens named;
  for (const auto& [name, key] :
       {std::pair("bos_token", "tokenizer.ggml.bos_token_id"), std::pair("eos_token", "tokenizer.ggml.eos_token_id"),
        std::pair("unk_token", "tokenizer.ggml.unknown_token_id"),
        std::pair("pad_token", "tokenizer.ggml.padding_token_id")})
    if (const auto id = token_id(metadata, key, tokens == nullptr ? 0 : tokens->size)) named.emplace_back(name, *id);
  return named;
}

}  // namespace nibble::model
