#include "eval/report/pareto_front.h"

#include <algorithm>
#include <utility>

namespace nibble::eval {

ParetoFront pareto_front(const Entries& points, const ParetoMeasures& measures) {
  Entries sorted = points;
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Entry* a, const Entry* b) {
    return std::pair(measures.bits(*a), measures.figure(*a)) < std::pair(measures.bits(*b), measures.figure(*b));
  });
  ParetoFront front;
  for (const Entry* entry : sorted)
    if (front.lowest.empty() || measures.figure(*entry) < measures.figure(*front.lowest.back()))
      front.lowest.push_back(entry);
  for (const Entry* entry : sorted) {
    bool beaten = false, undecided = false;
    for (const Entry* rival : sorted) {
      if (rival == entry || measures.bits(*rival) > measures.bits(*entry)) continue;
      const auto difference = measures.difference(*entry, *rival);
      if (!difference) continue;
      if (is_undecided(*difference))
        undecided = true;
      else
        beaten |= measures.figure(*rival) < measures.figure(*entry);
    }
    if (undecided && !beaten) front.undecided.insert(entry);
  }
  return front;
}

}  // namespace nibble::eval
