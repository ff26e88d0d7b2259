#include "model/tokenizer/files/sentencepiece_file.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "core/error.h"
#include "core/text/excerpt.h"
#include "core/text/protobuf.h"
#include "model/tokenizer/files/text_file.h"
#include "model/tokenizer/files/vocabulary.h"
#include "model/tokenizer/utf8.h"

namespace nibble::model {
namespace {

using PieceKind = TokenizerSpec::PieceKind;

// Field numbers of sentencepiece_model.proto.
enum ModelField { kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3, kDenormalizerSpec = 5 };
enum PieceField { kPiece = 1, kScore = 2, kKind = 3 };
enum TrainerField { kModelType = 3, kWhitespaceAsSuffix = 24, kByteFallback = 35, kUnknownSurface = 44 };
enum NormalizerField { kCharsmap = 2, kAddDummyPrefix = 3, kRemoveExtraWhitespaces = 4, kEscapeWhitespaces = 5 };

/// The message as it is written.
struct SentencePieceModel {
  std::vector<std::string> pieces;
  std::vector<double> scores;
  std::vector<PieceKind> kinds;
  std::int32_t type = 1;  // 1 Unigram, 2 BPE, 3 words, 4 characters
  bool byte_fallback = false;
  std::string unknown_surface = " \u2047 ";
  SentencePieceStep normalizer;
};

void read_piece(SentencePieceModel& model, std::string_view message, const std::string& file) {
  const std::string where = fmt::format("{}: piece {}", file, model.pieces.size());
  std::string text;
  float score = 0;
  std::int32_t kind = static_cast<std::int32_t>(PieceKind::kNormal);
  for_each_protobuf_field(message, where, [&](const ProtobufField& field) {
    if (field.number() == kPiece) text = field.bytes();
    if (field.number() == kScore) score = field.real();
    if (field.number() == kKind) kind = field.integer();
  });
  NIBBLE_REQUIRE(!text.empty(), FormatError, "{}: the piece is empty", where);
  NIBBLE_REQUIRE(valid_utf8_prefix(text) == text.size(), FormatError, "{}: the piece is not UTF-8", where);
  NIBBLE_REQUIRE(kind >= 1 && kind <= 6, FormatError, "{}: the type {} is not known", where, kind);
  NIBBLE_REQUIRE(model.pieces.size() < kMaxVocabulary, FormatError, "{}: there are more than {} pieces", file,
                 kMaxVocabulary);
  model.pieces.push_back(std::move(text));
  model.scores.push_back(static_cast<double>(score));
  model.kinds.push_back(static_cast<PieceKind>(kind));
}

void read_trainer(SentencePieceModel& model, std::string_view message, const std::string& where) {
  for_each_protobuf_field(message, where, [&](const ProtobufField& field) {
    if (field.number() == kModelType) model.type = field.integer();
    if (field.number() == kWhitespaceAsSuffix) model.normalizer.whitespace_as_suffix = field.boolean();
    if (field.number() == kByteFallback) model.byte_fallback = field.boolean();
    if (field.number() == kUnknownSurface) model.unknown_surface = field.bytes();
  });
}

void read_normalizer_spec(SentencePieceModel& model, std::string_view message, const std::string& where) {
  for_each_protobuf_field(message, where, [&](const ProtobufField& field) {
    if (field.number() == kCharsmap) model.normalizer.charsmap = field.bytes();
    if (field.number() == kAddDummyPrefix) model.normalizer.add_dummy_prefix = field.boolean();
    if (field.number() == kRemoveExtraWhitespaces) model.normalizer.remove_extra_whitespaces = field.boolean();
    if (field.number() == kEscapeWhitespaces) model.normalizer.escape_whitespaces = field.boolean();
  });
}

void refuse_denormalizer(std::string_view message, const std::string& where) {
  for_each_protobuf_field(message, where, [&](const ProtobufField& field) {
    NIBBLE_REQUIRE(field.number() != kCharsmap || field.bytes().empty(), FormatError,
                   "{}: denormalisation rules are not supported", where);
  });
}

SentencePieceModel parse(std::string_view bytes, const std::string& where) {
  SentencePieceModel model;
  for_each_protobuf_field(bytes, where, [&](const ProtobufField& field) {
    if (field.number() == kPieces) read_piece(model, field.bytes(), where);
    if (field.number() == kTrainerSpec) read_trainer(model, field.bytes(), where + ": trainer_spec");
    if (field.number() == kNormalizerSpec) read_normalizer_spec(model, field.bytes(), where + ": normalizer_spec");
    if (field.number() == kDenormalizerSpec) refuse_denormalizer(field.bytes(), where + ": denormalizer_spec");
  });
  NIBBLE_REQUIRE(!model.pieces.empty(), FormatError, "{}: there are no pieces", where);
  NIBBLE_REQUIRE(model.type == 1 || model.type == 2, FormatError,
                 "{}: model type {} is not supported, only Unigram (1) and BPE (2) are", where, model.type);
  return model;
}

void check_pieces(const SentencePieceModel& model, const std::string& where) {
  std::set<std::string_view> seen;
  std::size_t unknowns = 0;
  std::size_t bytes = 0;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    NIBBLE_REQUIRE(seen.insert(model.pieces[id]).second, FormatError, "{}: piece {} is there twice", where,
                   in_quotes(model.pieces[id]));
    unknowns += model.kinds[id] == PieceKind::kUnknown ? 1u : 0u;
    bytes += model.kinds[id] == PieceKind::kByte ? 1u : 0u;
  }
  NIBBLE_REQUIRE(unknowns == 1, FormatError, "{}: one piece must be of type UNKNOWN, got {}", where, unknowns);
  NIBBLE_REQUIRE(!model.byte_fallback || bytes == 256, FormatError,
                 "{}: byte_fallback needs 256 pieces of type BYTE, got {}", where, bytes);
}

// Control pieces that tokenizer_config.json gives a name are found in texts, which SentencePiece alone does not do.
std::unordered_map<std::string_view, TokenId> control_pieces(const SentencePieceModel& model) {
  std::unordered_map<std::string_view, TokenId> ids;
  for (std::size_t id = 0; id < model.pieces.size(); ++id)
    if (model.kinds[id] == PieceKind::kControl || model.kinds[id] == PieceKind::kUnknown)
      ids.emplace(model.pieces[id], static_cast<TokenId>(id));
  return ids;
}

/// Texts and back as the sentencepiece library has them.
void set_library_steps(TokenizerSpec& spec, SentencePieceModel& model, const TokenizerConfig& config) {
  SentencePieceStep& normalizer = model.normalizer;
  if (config.add_prefix_space == false) normalizer.add_dummy_prefix = false;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.kinds[id] == PieceKind::kUserDefined) normalizer.user_defined.push_back(model.pieces[id]);
  }
  spec.decoded.emplace(*spec.unknown, model.unknown_surface);
  spec.decoder = {
      SentencePieceDecoderStep{.drop_first = normalizer.add_dummy_prefix || normalizer.remove_extra_whitespaces,
                               .drop_more = normalizer.remove_extra_whitespaces},
      ByteFallbackStep{}, FuseStep{}};
  spec.normalizer.emplace_back(std::move(normalizer));
}

/// As transformers' LlamaTokenizer has them where "legacy" is false. It sees nothing of the model's normalisation, and
/// its older implementation, on the library, all of it: only where there is none are they one.
void set_llama_steps(TokenizerSpec& spec, SentencePieceModel& model, const TokenizerConfig& config) {
  const SentencePieceStep& normalizer = model.normalizer;
  const bool is_plain = normalizer.charsmap.empty() && !normalizer.remove_extra_whitespaces &&
                        normalizer.escape_whitespaces && !normalizer.whitespace_as_suffix;
  NIBBLE_REQUIRE(spec.model == TokenizerSpec::Model::kScoredBpe && is_plain, FormatError,
                 "{}: \"legacy\": false in tokenizer_config.json is supported for BPE without normalisation rules and "
                 "with remove_extra_whitespaces off. A tokenizer.json says what is meant "
                 "(AutoTokenizer.from_pretrained(…).save_pretrained(…) writes one)",
                 spec.where);
  // Pieces that SentencePiece does not merge are added tokens there.
  std::set<std::string> listed;
  for (const AddedToken& token : spec.added) listed.insert(token.content);
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const bool is_control = model.kinds[id] == PieceKind::kControl;
    if (!is_control && model.kinds[id] != PieceKind::kUserDefined) continue;
    if (!is_control) model.kinds[id] = PieceKind::kNormal;
    if (listed.contains(model.pieces[id])) continue;
    spec.added.push_back({.id = static_cast<TokenId>(id), .content = model.pieces[id], .special = is_control});
  }
  const bool prefix = config.add_prefix_space.value_or(true);
  using Prepend = MetaspaceStep::Prepend;
  spec.pre_tokenizer.emplace_back(
      MetaspaceStep{.replacement = "▁", .prepend = prefix ? Prepend::kFirst : Prepend::kNever, .split = false});
  spec.decoder = {ReplaceStep{.pattern = "▁", .to = " "}, ByteFallbackStep{}, FuseStep{}};
  if (prefix) spec.decoder.emplace_back(StripStep{.content = " ", .start = 1});
}

bool is_llama(const TokenizerConfig& config) {
  return config.tokenizer_class.empty() || config.tokenizer_class.starts_with("LlamaTokenizer");
}

}  // namespace

TokenizerSpec read_sentencepiece_file(const std::filesystem::path& path, const TokenizerConfig& config) {
  TokenizerSpec spec;
  spec.where = path.string();
  SentencePieceModel model = parse(read_text_file(path), spec.where);
  check_pieces(model, spec.where);
  spec.model = model.type == 1 ? TokenizerSpec::Model::kUnigram : TokenizerSpec::Model::kScoredBpe;
  spec.sentencepiece_arithmetic = true;
  spec.byte_fallback = model.byte_fallback;
  spec.unknown = static_cast<TokenId>(std::find(model.kinds.begin(), model.kinds.end(), PieceKind::kUnknown) -
                                      model.kinds.begin());
  join_added_tokens(spec.added, config, spec.where);
  const auto controls = control_pieces(model);
  join_named_tokens(spec.added, config.special, [&](const std::string& content) {
    const auto found = controls.find(content);
    return found == controls.end() ? std::nullopt : std::optional(found->second);
  });
  if (config.legacy || !is_llama(config)) {
    set_library_steps(spec, model, config);
  } else {
    set_llama_steps(spec, model, config);
  }
  append_added_tokens(spec, model.pieces, model.kinds);
  model.scores.resize(model.pieces.size(), model.scores.front());
  set_tokens(spec, std::move(model.pieces), std::move(model.kinds));
  spec.scores = std::move(model.scores);
  apply_tokenizer_config(spec, config);
  return spec;
}

}  // namespace nibble::model
