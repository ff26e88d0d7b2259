#pragma once

#include <functional>
#include <optional>
#include <set>

#include "eval/report/pivot.h"
#include "eval/sweep/paired_test.h"

namespace nibble::eval {

/// What is compared: bits and a figure, the lower the better, and how far two figures can be told apart (a - b).
struct ParetoMeasures {
  std::function<double(const Entry&)> bits, figure;
  std::function<std::optional<PairedDifference>(const Entry&, const Entry&)> difference;
};

struct ParetoFront {
  Entries lowest;  ///< whose figure is below those of all others with at most as many bits; fewest bits first
  /// Entries that belong to the front, or do not, only within the errors: what has at most their bits is decidedly
  /// lower in no case, and not told from them in one. Differences that are not known (of one window, say) make none.
  std::set<const Entry*> undecided;
};

/// Of finite bits and figures. Of the same bits and figure the first counts. n² differences.
ParetoFront pareto_front(const Entries& points, const ParetoMeasures& measures);

}  // namespace nibble::eval
