#include "model/tokenizer/decoder.h"

#include "core/error.h"
#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/byte_tokens.h"

namespace nibble::model {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{512} << 20;  // of all tokens: a Replace may make them grow

template <class... Actions>
struct Overloaded : Actions... {
  using Actions::operator()...;
};

std::string decode_token(const DecoderStep& step, const std::string& token) {
  return std::visit(Overloaded{
                        [&](const ByteLevelDecoderStep&) { return unspell_bytes(token).value_or(token); },
                        [&](const ByteFallbackStep&) {
                          const auto byte = byte_of_token(token);
                          return byte ? std::string(1, static_cast<char>(*byte)) : token;
                        },
                        [&](const MetaspaceDecoderStep& metaspace) {
                          return ReplaceStep{metaspace.replacement, " "}.apply(token);
                        },
                        [&](const FuseStep&) { return token; },
                        [&](const auto& step_on_text) { return step_on_text.apply(token); },
                    },
                    step);
}

}  // namespace

std::string StripStep::apply(std::string_view text) const {
  for (std::size_t i = 0; i < start && text.starts_with(content); ++i) text.remove_prefix(content.size());
  for (std::size_t i = 0; i < stop && text.ends_with(content); ++i) text.remove_suffix(content.size());
  return std::string(text);
}

Decoder::Decoder(const std::vector<DecoderStep>& steps, const std::vector<std::string>& tokens,
                 const std::vector<AddedToken>& added, const std::string& where)
    : text_(tokens), is_special_(tokens.size()) {
  bool fused = false;
  for (const DecoderStep& step : steps) {
    if (!fused) {
      const std::string place = where + ": decoder";
      std::size_t bytes = 0;
      for (std::size_t id = 0; id < text_.size(); ++id) {
        text_[id] = decode_token(step, text_[id]);
        require_bounded_growth(tokens[id].size(), text_[id].size(), place);
        bytes += text_[id].size();
        NIBBLE_REQUIRE(bytes <= kMaxTextBytes, FormatError, "{}: the tokens decode to more than {} bytes", place,
                       kMaxTextBytes);
      }
    } else if (std::holds_alternative<StripStep>(step) || std::holds_alternative<ReplaceStep>(step)) {
      text_steps_.push_back(step);
    } else {
      NIBBLE_REQUIRE(std::holds_alternative<FuseStep>(step), FormatError,
                     "{}: decoder: only Strip and Replace are supported after Fuse or ByteLevel", where);
    }
    if (const auto* metaspace = std::get_if<MetaspaceDecoderStep>(&step)) {
      drop_leading_spaces_ = metaspace->drop_leading;
    }
    fused = fused || std::holds_alternative<FuseStep>(step) || std::holds_alternative<ByteLevelDecoderStep>(step);
  }
  for (const AddedToken& token : added) {
    text_[token.id] = token.content;
    is_special_[token.id] = token.special;
  }
}

std::string Decoder::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::string_view token = text_[ids[i]];
    if (i == 0 && drop_leading_spaces_) token.remove_prefix(std::min(token.find_first_not_of(' '), token.size()));
    text.append(token);
  }
  const std::size_t size = text.size();
  for (const DecoderStep& step : text_steps_) {
    text = decode_token(step, text);
    require_bounded_growth(size, text.size(), "the tokenizer's decoder");
  }
  return text;
}

}  // namespace nibble::model
