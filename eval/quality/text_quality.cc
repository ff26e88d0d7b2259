#include "eval/quality/text_quality.h"

namespace nibble::eval {

TextQuality text_quality(const model::Model& model, const model::Model* reference, std::span<const TokenId> tokens,
                         const model::Tokenizer* tokenizer, PerplexityOptions options) {
  if (tokenizer != nullptr) {
    if (options.protocol == datasets::Protocol::kHalf) options.bos = tokenizer->added_bos();
    options.byte_length = [tokenizer](TokenId id) { return tokenizer->byte_length_if_known(id); };
  }
  TextQuality quality;
  if (reference == nullptr) {
    quality.perplexity = perplexity(model, tokens, options);
  } else {
    quality.comparison = compare_with_reference(model, *reference, tokens, options);
    quality.perplexity = quality.comparison->model;
  }
  return quality;
}

}  // namespace nibble::eval
