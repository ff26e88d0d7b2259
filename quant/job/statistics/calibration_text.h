#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/transformer/transformer.h"

namespace nibble::quant {

/// The text that `sequential: true`, `tuning` and a budget's probes run through the model.
struct CalibrationText {
  std::vector<TokenId> tokens;  ///< windows, one after the other
  std::size_t window_tokens = 0;
  std::string fingerprint;  ///< of what the windows were made from, and how
  std::size_t statistics_windows =
      0;                    ///< its first, for `sequential` and probes; 0: all but those that tuning holds out
  bool behind_bos = false;  ///< windows begin with the tokenizer's BOS
  std::size_t windows() const { return tokens.size() / window_tokens; }
  /// Its first `first` windows, or where that is 0 all that are not of the last, and its last `last` ones.
  /// Precondition: it has as many.
  CalibrationText first_and_last(std::size_t first, std::size_t last) const;
  /// The windows for `sequential` and probes, where tuning holds out the last `held_out`, fewer than all.
  CalibrationText of_statistics(std::size_t held_out) const;
};

/// The share of the tokens of the windows `of` that stand in a run of kRepeatedRun tokens which a window of `in` has
/// too: slices of one document that overlap, or a text that repeats itself. Cost: sorting 8 bytes for every token of
/// `in`.
inline constexpr std::size_t kRepeatedRun = 16;
double repeated_share(const CalibrationText& text, std::span<const std::size_t> of, std::span<const std::size_t> in);

/// Refuses a text that is no whole number of windows of `least` tokens or more, has windows longer than the positions
/// that the model has learned, or tokens that it lacks; `what` is to run over it. Throws InvalidArgument.
void check_windows(const CalibrationText& text, const model::Architecture& architecture, std::string_view what,
                   std::size_t least = 2);

}  // namespace nibble::quant
