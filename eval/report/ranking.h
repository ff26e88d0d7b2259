#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "eval/report/pivot.h"
#include "eval/sweep/paired_test.h"

namespace nibble::eval {

/// The figure by which cells of one model and evaluation are ranked, lower being better: the KL divergence from the
/// float model where every quantized cell has it, which the text's own difficulty does not blur; else perplexity.
struct Ranking {
  bool by_divergence = false;

  /// Millinats per token, or perplexity. Infinite where a cell has none: such a cell comes last. The float model, which
  /// does not diverge from itself, has a KL of 0.
  double value(const Entry& entry) const;
  /// "3.53 ± 0.04", or "117.08 ± 1.20"; "not finite".
  std::string text(const Entry& entry) const;
  std::string name() const { return by_divergence ? "KL divergence, millinats per token" : "perplexity"; }
  /// The figure of each window, in nats per token of KL or of loss. Empty where a cell has none.
  std::span<const double> windows(const Entry& entry) const;
  /// What windows weigh in the figure of both (record.h).
  std::span<const std::uint64_t> weights(const Entry& a, const Entry& b) const;
  /// a - b over windows, in nats per token of KL or of loss. Empty where there is nothing to pair.
  std::optional<PairedDifference> difference(const Entry& a, const Entry& b) const;
};

/// "+0.0213 ± 0.0004": in millinats, with as many decimals as the error needs.
std::string millinat_difference(const PairedDifference& difference);

/// Of quantized entries of one comparable_key(): under different protocols nothing competes, nor with the float model.
/// `best` is alone in being the lowest; where others are not told from it, all of them are undecided. An entry whose
/// difference from the lowest is not known (of one window, say) is neither, and nor is the lowest then.
struct Marks {
  std::set<const Entry*> best = {}, undecided = {};
  std::set<const Entry*> by_chance = {};             ///< lowest ones that others are below where both were measured
  std::map<const Entry*, const Entry*> lowest = {};  ///< of the group of each entry whose value is finite
};

/// By value(entry), lower being better, and difference(entry, lowest), empty where it is not known.
Marks marks_of(const Entries& entries, const std::function<double(const Entry&)>& value,
               const std::function<std::optional<PairedDifference>(const Entry&, const Entry&)>& difference);

/// Of entries that may be of several models and evaluations: by divergence only where all quantized ones have it.
Ranking ranking_of(const Entries& entries);

/// Whether it is the float model.
bool is_float_model(const Entry& entry);

}  // namespace nibble::eval
