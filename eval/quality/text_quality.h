#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "eval/quality/perplexity.h"
#include "eval/quality/reference_comparison.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::eval {

/// How well a model predicts a text, and how far it is from a reference if there is one.
struct TextQuality {
  PerplexityResult perplexity;
  std::optional<ReferenceComparison> comparison;  ///< `perplexity` is then comparison->model
  std::optional<std::string> warning;             ///< warning_of_missing_bos()
};

inline constexpr std::string_view kBosOfHalf = "bos: blocks of protocol half begin with the BOS unasked";

/// What each window begins with in place of its own first token: the BOS that `tokenizer` (which may be null) puts
/// before texts, for `half` where there is one, for other protocols where that is `wanted`. Throws InvalidArgument
/// where it is wanted of a tokenizer that has none, or of `half`, which has it unasked.
std::optional<TokenId> window_bos(datasets::Protocol protocol, bool wanted, const model::Tokenizer* tokenizer);

/// perplexity(), or with a `reference` compare_with_reference(). `tokenizer` is the one that made `tokens`: it says how
/// many bytes they stand for; null where ids came from elsewhere (then options.byte_length stays as it is). Throws as
/// those two.
TextQuality text_quality(const model::Model& model, const model::Model* reference, std::span<const TokenId> tokens,
                         const model::Tokenizer* tokenizer, PerplexityOptions options);

}  // namespace nibble::eval
