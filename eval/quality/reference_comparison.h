#pragma once

#include <cstdint>
#include <vector>

#include "eval/quality/perplexity.h"
#include "eval/quality/window_batch.h"

namespace nibble::eval {

/// How far a model's predictions are from those of a reference (the float model) on one text.
struct ReferenceComparison {
  PerplexityResult model;      ///< the same figures as perplexity() gives, the time of the reference left out
  PerplexityResult reference;  ///< of the reference, likewise

  /// KL(reference ‖ model) of the predictions of the scored tokens, in nats per token.
  double kl_mean = 0.0;
  /// weighted_mean() of the windows, by their scored tokens as kl_mean is: tokens of one window are not independent.
  double kl_mean_stderr = 0.0;
  std::vector<double> window_kl;  ///< mean of each window, nats: for paired differences between models
  double kl_median = 0.0, kl_99 = 0.0, kl_999 = 0.0, kl_max = 0.0;
  double top1_agreement = 0.0;  ///< share of scored tokens for which both models rank the same token first

  /// perplexity / reference's perplexity, and its standard error from the paired differences of NLLs: far smaller than
  /// what the two standard errors suggest, as both models find the same passages hard.
  double perplexity_ratio = 0.0;
  double perplexity_ratio_stderr = 0.0;
};

/// Runs both models over `tokens` and compares them, row of logits by row of logits.
///
/// Memory   beside what each model needs for a forward pass, one chunk of logits of each (at most 32 MB) and 24 bytes
///          per scored token: the reference's logits are never kept.
/// Cost     two forward passes and one pass over both logits (softmax_comparison.h).
/// Throws InvalidArgument: different vocabularies, or as perplexity() does.
ReferenceComparison compare_with_reference(const model::Model& model, const model::Model& reference,
                                           std::span<const TokenId> tokens, const PerplexityOptions& options);

/// The same with logits of the reference from elsewhere (kept_states.h).
ReferenceComparison compare_with_reference(const model::Model& model, const LogitMaker& reference,
                                           std::span<const TokenId> tokens, const PerplexityOptions& options);

}  // namespace nibble::eval
