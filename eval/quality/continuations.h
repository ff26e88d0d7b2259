#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/progress.h"
#include "model/transformer/transformer.h"

namespace nibble::eval {

/// A text and how it might go on: what multiple-choice tasks ask a model about.
struct Continuation {
  std::vector<TokenId> context;       ///< at least one token
  std::vector<TokenId> continuation;  ///< at least one token, each predicted from everything before it
};

struct ContinuationScore {
  double log_likelihood = 0.0;  ///< Σ ln p(continuation token | everything before it), nats
  bool greedy = false;          ///< each of its tokens has the largest logit there is (of equal ones the lowest id)
};

struct ContinuationOptions {
  std::size_t max_tokens = 0;       ///< of context and continuation without its last token; 0: max_positions
  std::size_t batch_tokens = 2048;  ///< texts are run together up to about this many tokens
  model::ForwardOptions forward = {};
  ProgressSink progress = {};  ///< in continuations scored
};

struct ContinuationResult {
  std::vector<ContinuationScore> scores;  ///< in the order of the questions
  std::uint64_t tokens_run = 0;           ///< that went through the network: what sharing has left
};

/// Scores every continuation. What is too long loses tokens from the left, as lm-evaluation-harness has it: the newest
/// max_tokens are run.
///
/// Questions that begin alike share what they can: one whose tokens are the beginning of another's costs nothing, and
/// those with the same context (at least 32 tokens of it, twice their endings) run it once and keep its keys and values
/// for each ending (not where rotary frequencies depend on how long a text is). The rest runs in batches, longest
/// first. So scores depend on what else is asked as results of a matrix library do, in the last digits.
///
/// Throws InvalidArgument: an empty context or continuation, ids outside the vocabulary, a continuation longer than
/// max_tokens, max_tokens beyond learned positions; NumericalError when logits hold NaN.
ContinuationResult score_continuations(const model::Model& model, std::span<const Continuation> questions,
                                       const ContinuationOptions& options);

}  // namespace nibble::eval
