#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/progress.h"
#include "model/transformer/cache/sequence.h"

namespace nibble::eval {

/// A kind of sequence under comparison.
struct ComparedCache {
  std::string name;
  std::function<std::unique_ptr<model::Sequence<float>>()> make;  ///< an empty one, with room for all tokens
  bool exact = true;  ///< its logits are to be the prompt's; false: they may differ (f16, int8, a window that slides)
};

/// The same tokens appended to one sequence in calls of these lengths, one after the other and again from the first.
struct Cut {
  std::string name;  ///< "1", "64", "mixed", "all"
  std::vector<std::size_t> lengths;
};
/// Calls of `tokens` each, for every one of `chunks`; calls of changing length; and all at once.
std::vector<Cut> cuts_of(std::span<const std::size_t> chunks, std::size_t tokens);

/// One cache and one way to cut the tokens into calls, against one prompt without a cache.
struct LogitDifferences {
  std::string cache, cut;
  bool exact = true;
  /// max over the vocabulary of |logit - expected|; NaN where a logit is NaN or missing
  std::vector<double> by_position = {};
  std::size_t worst_position = 0;
  double largest = 0.0;  ///< by_position[worst_position]

  /// False beyond the tolerance, also for NaN; a cache that need not be exact always passes.
  bool within(double tolerance) const { return !exact || largest <= tolerance; }
};

/// Runs `tokens` under every cache and cut. A key written to a wrong slot shows as a large difference from the first
/// position that sees it on, where calls are longer than one token. Memory: tokens · vocabulary · 4 bytes for the
/// logits of the prompt, and one sequence at a time. Throws InvalidArgument as Sequence::extend().
std::vector<LogitDifferences> compare_logits(const model::Model& model, std::span<const TokenId> tokens,
                                             std::span<const ComparedCache> caches, std::span<const Cut> cuts,
                                             const model::ForwardOptions& options = {},
                                             const ProgressSink& progress = {});

}  // namespace nibble::eval
