#include "model/tokenizer/text_decoder.h"

#include <algorithm>

#include "core/error.h"
#include "model/tokenizer/words/byte_alphabet.h"
#include "model/tokenizer/words/byte_tokens.h"

namespace nibble::model {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";
constexpr std::size_t kMaxTextBytes = std::size_t{512} << 20;  // of all tokens: a Replace may make them grow

std::string strip(std::string_view text, const StripStep& step) {
  for (std::size_t i = 0; i < step.start && text.starts_with(step.content); ++i) {
    text.remove_prefix(step.content.size());
  }
  for (std::size_t i = 0; i < step.stop && text.ends_with(step.content); ++i) text.remove_suffix(step.content.size());
  return std::string(text);
}

}  // namespace

class TextDecoder::Step {
 public:
  Step(const DecoderStep& step, const std::string& where) : step_(step) {
    if (const auto* replace = std::get_if<ReplaceStep>(&step)) replace_ = make_replace(*replace, where);
    if (const auto* metaspace = std::get_if<MetaspaceDecoderStep>(&step)) {
      const auto spelled_as = [&](const char* space) {
        return make_replace({.pattern = metaspace->replacement, .to = space}, where);
      };
      replace_ = spelled_as(" ");
      replace_first_ = spelled_as(metaspace->drop_leading ? "" : " ");
    }
    if (const auto* sentencepiece = std::get_if<SentencePieceDecoderStep>(&step)) {
      replace_ = make_replace({.pattern = std::string(kSpaceMark), .to = " "}, where);
      replace_first_ = [all = replace_, drops = sentencepiece->drop_first](std::string_view token) {
        return all(drops && token.starts_with(kSpaceMark) ? token.substr(kSpaceMark.size()) : token);
      };
    }
  }

  bool fuses() const {
    return std::holds_alternative<FuseStep>(step_) || std::holds_alternative<ByteLevelDecoderStep>(step_);
  }
  bool works_on_texts() const {
    return std::holds_alternative<StripStep>(step_) || std::holds_alternative<ReplaceStep>(step_) ||
           std::holds_alternative<FuseStep>(step_);
  }
  bool first_differs() const { return replace_first_ != nullptr; }
  bool all_first() const {
    const auto* sentencepiece = std::get_if<SentencePieceDecoderStep>(&step_);
    return sentencepiece != nullptr && sentencepiece->drop_more;
  }
  bool is_byte_fallback() const { return std::holds_alternative<ByteFallbackStep>(step_); }

  std::string apply(const std::string& token, bool is_first, bool is_added) const {
    if (replace_first_) return (is_first ? replace_first_ : replace_)(token);
    if (replace_) return replace_(token);
    if (const auto* ends = std::get_if<StripStep>(&step_)) return strip(token, *ends);
    if (is_byte_fallback()) {
      const auto byte = byte_of_token(token);
      return byte ? std::string(1, static_cast<char>(*byte)) : token;
    }
    if (std::holds_alternative<ByteLevelDecoderStep>(step_) && !is_added) return unspell_bytes(token).value_or(token);
    return token;
  }

 private:
  DecoderStep step_;
  TextFunction replace_;
  TextFunction replace_first_;
};

TextDecoder::TextDecoder(const TokenizerSpec& spec, const Normalizer& normalizer)
    : spec_(spec), is_added_(spec.tokens.size()), is_special_(spec.tokens.size()), text_(spec.tokens.size()) {
  const std::string place = spec.where + ": decoder";
  bool fused = false;
  bool falls_back = false;
  for (const DecoderStep& step : spec.decoder) {
    Step next(step, place);
    NIBBLE_REQUIRE(!fused || next.works_on_texts(), FormatError,
                   "{}: only Strip and Replace are supported after Fuse or ByteLevel", place);
    first_differs_ = first_differs_ || next.first_differs();
    all_first_ = all_first_ || next.all_first();
    falls_back = falls_back || next.is_byte_fallback();
    (fused ? text_steps_ : token_steps_).push_back(next);
    fused = fused || next.fuses();
  }
  for (const AddedToken& token : spec.added) {
    is_added_[token.id] = true;
    if (token.normalized && !normalizer.is_identity()) normalized_[token.id] = normalizer.apply(token.content);
    // Gemma lists its byte tokens as special; they are text all the same.
    is_special_[token.id] = token.special && !(falls_back && byte_of_token(token.content));
  }
  std::size_t bytes = 0;
  for (std::size_t id = 0; id < text_.size(); ++id) {
    using Kind = TokenizerSpec::PieceKind;
    const Kind kind = spec.kind(static_cast<TokenId>(id));
    if (kind == Kind::kControl || kind == Kind::kUnknown) is_special_[id] = true;
    text_[id] = decode_token(static_cast<TokenId>(id), false);
    require_bounded_growth(spec.tokens[id].size(), text_[id].size(), place);
    bytes += text_[id].size();
    NIBBLE_REQUIRE(bytes <= kMaxTextBytes, FormatError, "{}: the tokens decode to more than {} bytes", place,
                   kMaxTextBytes);
  }
}

TextDecoder::~TextDecoder() = default;

std::string TextDecoder::decode_token(TokenId id, bool is_first) const {
  if (const auto given = spec_.decoded.find(id); given != spec_.decoded.end()) return given->second;
  const auto normalized = normalized_.find(id);
  std::string text = normalized != normalized_.end() ? normalized->second : spec_.tokens[id];
  for (const Step& step : token_steps_) text = step.apply(text, is_first, is_added_[id]);
  return text;
}

std::string TextDecoder::decode(std::span<const TokenId> ids) const {
  std::string text;
  bool is_first = true;
  for (const TokenId id : ids) {
    if (spec_.is_hole(id)) continue;
    if (first_differs_ && (is_first || (all_first_ && text.empty()))) {
      text = decode_token(id, true);
    } else {
      text.append(text_[id]);
    }
    is_first = false;
  }
  const std::size_t size = text.size();
  for (const Step& step : text_steps_) {
    text = step.apply(text, true, false);
    require_bounded_growth(size, text.size(), "the tokenizer's decoder");
  }
  return text;
}

}  // namespace nibble::model
