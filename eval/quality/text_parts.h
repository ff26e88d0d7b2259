#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "eval/quality/protocol_run.h"
#include "eval/quality/text_quality.h"

namespace nibble::eval {

/// What one of several texts has of an evaluation over all of them.
struct TextPart {
  std::uint64_t tokens = 0, tokens_scored = 0;
  std::size_t windows = 0;
  /// Mean NLL in nats as the protocol averages it, over this text's windows, and its error from their means: for `half`
  /// too, where that of all texts is one of tokens.
  Estimate nll;
  std::optional<Estimate> kl;  ///< over tokens; where there is a reference
};

/// The texts of options.text_ends one by one, or the only one. `max_positions` is the model's, `tokens` how many all
/// have. Cost: none beside the windows' figures that are there.
std::vector<TextPart> text_parts(const TextQuality& quality, const PerplexityOptions& options, std::size_t tokens,
                                 std::size_t max_positions);

}  // namespace nibble::eval
