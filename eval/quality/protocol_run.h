#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "datasets/eval_windows.h"
#include "eval/quality/perplexity_options.h"
#include "eval/quality/window_batch.h"

namespace nibble::eval {

/// A mean over a text and its standard error.
struct Estimate {
  double mean = 0.0;
  double standard_error = 0.0;
};

/// The windows of a text of `tokens` tokens, or of the several texts of options.text_ends, as the protocol cuts them;
/// a context of 0 is `max_positions`. Throws InvalidArgument as datasets::evaluation_windows() does for any of them,
/// and for ends that do not ascend to `tokens`.
std::vector<datasets::Window> protocol_windows(const PerplexityOptions& options, std::size_t tokens,
                                               std::size_t max_positions);

/// A text cut up as a protocol says: which batches are run, and how what was found for each target is averaged. What
/// perplexity() and compare_with_reference() share.
class ProtocolRun {
 public:
  /// `tokens` must outlive this. Throws InvalidArgument: ids outside the vocabulary, or as evaluation_windows() does.
  ProtocolRun(const model::Architecture& architecture, std::span<const TokenId> tokens,
              const PerplexityOptions& options);

  std::size_t targets() const { return targets_; }
  /// Calls body(batch, first) for each batch in order; the batch's targets are [first, first + batch.targets.size()).
  /// Reports progress after each.
  void for_each_batch(const std::function<void(const WindowBatch& batch, std::size_t first)>& body) const;

  /// The mean of a figure per target as the protocol averages it: over window means or over all targets, with its
  /// standard error (sd / √windows; over all targets weighted_mean()'s, or for `half` sd / √(targets - 1)).
  Estimate estimate(std::span<const double> per_target) const;

  /// The mean over all targets whatever the protocol, with weighted_mean()'s standard error: tokens of one window are
  /// not independent.
  Estimate estimate_over_targets(std::span<const double> per_target) const;

  /// The mean over the targets of each window.
  std::vector<double> window_means(std::span<const double> per_target) const;

  /// The number of targets of each window.
  std::vector<std::uint64_t> window_targets() const;

  /// Everything about a text of which the NLL of each target is known.
  PerplexityResult result(std::span<const double> nll, double seconds) const;

 private:
  double bits_per_byte(std::span<const double> nll) const;

  std::span<const TokenId> tokens_;
  PerplexityOptions options_;
  std::vector<datasets::Window> windows_;
  std::size_t targets_ = 0, tokens_run_ = 0;
};

}  // namespace nibble::eval
