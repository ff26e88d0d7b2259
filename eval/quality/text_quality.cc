#include "eval/quality/text_quality.h"

#include "core/error.h"
#include "eval/quality/missing_bos.h"
#include "model/tokenizer/required_bos.h"

namespace nibble::eval {

std::optional<TokenId> window_bos(datasets::Protocol protocol, bool wanted, const model::Tokenizer* tokenizer) {
  const bool half = protocol == datasets::Protocol::kHalf;
  NIBBLE_REQUIRE(!wanted || !half, InvalidArgument, "{}", kBosOfHalf);
  if (wanted) return model::required_bos(tokenizer);
  return half && tokenizer != nullptr ? tokenizer->added_bos() : std::nullopt;
}

TextQuality text_quality(const model::Model& model, const model::Model* reference, std::span<const TokenId> tokens,
                         const model::Tokenizer* tokenizer, PerplexityOptions options) {
  if (tokenizer != nullptr)
    options.byte_length = [tokenizer](TokenId id) { return tokenizer->byte_length_if_known(id); };
  TextQuality quality;
  if (reference == nullptr) {
    quality.perplexity = perplexity(model, tokens, options);
  } else {
    quality.comparison = compare_with_reference(model, *reference, tokens, options);
    quality.perplexity = quality.comparison->model;
  }
  const PerplexityResult& read = quality.comparison ? quality.comparison->reference : quality.perplexity;
  quality.warning = warning_of_missing_bos(options, tokenizer, read.perplexity);
  return quality;
}

}  // namespace nibble::eval
