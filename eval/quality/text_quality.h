#pragma once

#include <optional>
#include <span>

#include "eval/quality/perplexity.h"
#include "eval/quality/reference_comparison.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::eval {

/// How well a model predicts a text, and how far it is from a reference if there is one.
struct TextQuality {
  PerplexityResult perplexity;
  std::optional<ReferenceComparison> comparison;  ///< `perplexity` is then comparison->model
};

/// perplexity(), or with a `reference` compare_with_reference(). `tokenizer` is the one that made `tokens`: it says how
/// many bytes they stand for, and which BOS begins the blocks of `half`; null where ids came from elsewhere (then
/// options.bos and options.byte_length stay as they are). Throws as those two.
TextQuality text_quality(const model::Model& model, const model::Model* reference, std::span<const TokenId> tokens,
                         const model::Tokenizer* tokenizer, PerplexityOptions options);

}  // namespace nibble::eval
