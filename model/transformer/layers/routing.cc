#include "model/transformer/layers/routing.h"

#include <algorithm>
#include <utility>

#include "core/machine/thread_pool.h"
#include "model/transformer/row_ops.h"
#include "model/transformer/scalar.h"

namespace nibble::model {
namespace {

constexpr std::size_t kTokenTile = 32;
constexpr double kAddedToSum = 1e-20;  // of sigmoids, which may all be 0

template <class T>
bool is_larger(T a, T b) {
  const auto x = real_part(a), y = real_part(b);
  return x > y || (x != x && y == y);
}

// The indices of the chosen.size() largest values, ascending.
template <class T>
void choose_largest(std::span<const T> values, std::span<std::size_t> chosen) {
  std::size_t count = 0;
  for (std::size_t e = 0; e < values.size(); ++e) {
    std::size_t at = count;  // behind all that are no smaller: e has the higher index
    while (at > 0 && is_larger(values[e], values[chosen[at - 1]])) --at;
    if (at == chosen.size()) continue;
    if (count < chosen.size()) ++count;
    for (std::size_t i = count - 1; i > at; --i) chosen[i] = chosen[i - 1];
    chosen[at] = e;
  }
  std::sort(chosen.begin(), chosen.end());
}

// The sum of a group's two largest values.
template <class R>
R worth_of(std::span<const R> group) {
  R first = group[0], second = group[1];
  if (is_larger(second, first)) std::swap(first, second);
  for (const R value : group.subspan(2)) {
    if (is_larger(value, first)) {
      second = std::exchange(first, value);
    } else if (is_larger(value, second)) {
      second = value;
    }
  }
  return first + second;
}

// The chosen of a row of scores, ascending. Of groups the best alone are looked at, side by side.
template <class T>
void choose(const RoutingRule& rule, std::span<const T> scores, std::span<std::size_t> chosen) {
  if (!rule.reorders()) return choose_largest<T>(scores, chosen);
  using R = RealOf<T>;
  thread_local std::vector<R> values, worths, candidates;
  thread_local std::vector<std::size_t> groups;
  values.resize(scores.size());
  for (std::size_t e = 0; e < scores.size(); ++e)
    values[e] = real_part(scores[e]) + (rule.correction.empty() ? R(0) : static_cast<R>(rule.correction[e]));
  if (rule.groups == 1) return choose_largest<R>(values, chosen);
  const std::size_t size = scores.size() / rule.groups;
  worths.resize(rule.groups);
  for (std::size_t g = 0; g < rule.groups; ++g)
    worths[g] = worth_of<R>(std::span<const R>(values).subspan(g * size, size));
  groups.resize(rule.active_groups);
  choose_largest<R>(worths, groups);
  candidates.clear();
  for (const std::size_t g : groups)
    candidates.insert(candidates.end(), values.begin() + static_cast<std::ptrdiff_t>(g * size),
                      values.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
  choose_largest<R>(candidates, chosen);
  for (std::size_t& e : chosen) e = groups[e / size] * size + e % size;
}

// What the scores of the chosen are divided by: a constant where they are not renormalised.
template <class T>
T divisor_of(const RoutingRule& rule, std::span<const T> scores, std::span<const std::size_t> chosen) {
  if (!rule.renormalise) return T(1);
  WideOf<T> sum{};
  for (const std::size_t e : chosen) sum += static_cast<WideOf<T>>(scores[e]);
  if (rule.scores == RoutingRule::Scores::kSigmoids) sum += kAddedToSum;
  return static_cast<T>(sum);
}

// Fills starts, tokens and place from `expert`.
template <class T>
void group_by_expert(std::size_t experts, Routing<T>& routing) {
  routing.starts.assign(experts + 1, 0);
  for (const std::size_t e : routing.expert) ++routing.starts[e + 1];
  for (std::size_t e = 0; e < experts; ++e) routing.starts[e + 1] += routing.starts[e];
  std::vector<std::size_t> next(routing.starts.begin(), routing.starts.end() - 1);
  for (std::size_t i = 0; i < routing.expert.size(); ++i) {
    routing.place[i] = next[routing.expert[i]]++;
    routing.tokens[routing.place[i]] = i / routing.active;
  }
}

template <class T>
void for_tokens(std::size_t tokens, const T& body) {
  parallel_for_tiles(tokens, kTokenTile, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) body(t);
  });
}

}  // namespace

template <class T>
void route(const RoutingRule& rule, MatrixView<T> logits, Routing<T>& routing) {
  using Scores = RoutingRule::Scores;
  const std::size_t tokens = logits.rows(), active = rule.active;
  const T scale = static_cast<T>(static_cast<RealOf<T>>(rule.scale));
  routing.active = active;
  routing.expert.resize(tokens * active);
  routing.place.resize(tokens * active);
  routing.tokens.resize(tokens * active);
  routing.weights.resize(tokens * active);
  routing.gradient.resize(tokens * active);
  for_tokens(tokens, [&](std::size_t t) {
    const auto row = logits.row(t);
    if (rule.scores == Scores::kSigmoids)
      for (T& value : row) value = generic::sigmoid(value);
    // Probabilities are in the order of the logits, which rounding leaves apart where it makes probabilities one.
    const bool first = rule.scores == Scores::kProbabilities && rule.reorders();
    if (first) softmax_row(row.data(), row.size());
    choose<T>(rule, row, std::span(routing.expert).subspan(t * active, active));
    if (rule.scores == Scores::kProbabilities && !first) softmax_row(row.data(), row.size());
  });
  group_by_expert(logits.cols(), routing);
  for_tokens(tokens, [&](std::size_t t) {
    const auto row = logits.row(t);
    const auto expert = std::span<const std::size_t>(routing.expert).subspan(t * active, active);
    const auto place = std::span<const std::size_t>(routing.place).subspan(t * active, active);
    if (rule.scores != Scores::kOfChosen) {
      const T divisor = divisor_of<T>(rule, row, expert);
      for (std::size_t c = 0; c < active; ++c) routing.weights[place[c]] = row[expert[c]] / divisor * scale;
    } else {
      thread_local std::vector<T> chosen;
      chosen.resize(active);
      for (std::size_t c = 0; c < active; ++c) chosen[c] = row[expert[c]];
      softmax_row(chosen.data(), active);
      for (std::size_t c = 0; c < active; ++c) routing.weights[place[c]] = chosen[c] * scale;
    }
  });
}

// With w_e = c s_e / D for the chosen (c: scale, D: divisor), g_e = dL/dw_e and m = Σ g_e w_e:
//   dL/ds_e = (c g_e - m) / D where renormalised, else c g_e.
// Of sigmoids, dL/dl_e = s_e (1 - s_e) dL/ds_e. Of probabilities, dL/dl_e = s_e (dL/ds_e - Σ_j s_j dL/ds_j), where the
// sum is over the chosen: 0 where renormalised, else m; those not chosen have the second term alone. Of the chosen
// logits, s is their softmax and D is 1.
template <class T>
void route_backward(const RoutingRule& rule, const Routing<T>& routing, MatrixView<T> logits) {
  using Scores = RoutingRule::Scores;
  const std::size_t active = rule.active;
  const T scale = static_cast<T>(static_cast<RealOf<T>>(rule.scale));
  for_tokens(logits.rows(), [&](std::size_t t) {
    const auto row = logits.row(t);
    const auto expert = std::span<const std::size_t>(routing.expert).subspan(t * active, active);
    const auto place = std::span<const std::size_t>(routing.place).subspan(t * active, active);
    WideOf<T> sum{};
    for (const std::size_t p : place) sum += static_cast<WideOf<T>>(routing.gradient[p] * routing.weights[p]);
    const T mean = static_cast<T>(sum);
    thread_local std::vector<T> chosen;
    chosen.resize(active);
    const bool of_chosen = rule.scores == Scores::kOfChosen;
    const T divisor = of_chosen ? T(1) : divisor_of<T>(rule, row, expert);
    for (std::size_t c = 0; c < active; ++c) {
      const T gradient = scale * routing.gradient[place[c]];
      if (of_chosen) {
        chosen[c] = routing.weights[place[c]] / scale * (gradient - mean);
      } else if (rule.scores == Scores::kSigmoids) {
        const T score = row[expert[c]];
        chosen[c] = (rule.renormalise ? gradient - mean : gradient) / divisor * (score * (T(1) - score));
      } else {
        chosen[c] = row[expert[c]] * ((gradient - mean) / divisor);
      }
    }
    const bool all = rule.scores == Scores::kProbabilities && !rule.renormalise;
    for (T& value : row) value = all ? -value * mean : T(0);
    for (std::size_t c = 0; c < active; ++c) row[expert[c]] = chosen[c];
  });
}

#define NIBBLE_INSTANTIATE(T)                                             \
  template void route<T>(const RoutingRule&, MatrixView<T>, Routing<T>&); \
  template void route_backward<T>(const RoutingRule&, const Routing<T>&, MatrixView<T>);
NIBBLE_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model
