#include "model/transformer/layers/routing.h"

#include <algorithm>

#include "core/machine/thread_pool.h"
#include "model/transformer/row_ops.h"
#include "model/transformer/scalar.h"

namespace nibble::model {
namespace {

constexpr std::size_t kTokenTile = 32;

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
  const std::size_t tokens = logits.rows(), active = rule.active;
  routing.active = active;
  routing.expert.resize(tokens * active);
  routing.place.resize(tokens * active);
  routing.tokens.resize(tokens * active);
  routing.weights.resize(tokens * active);
  routing.gradient.resize(tokens * active);
  for_tokens(tokens, [&](std::size_t t) {
    choose_largest<T>(logits.row(t), std::span(routing.expert).subspan(t * active, active));
  });
  group_by_expert(logits.cols(), routing);
  for_tokens(tokens, [&](std::size_t t) {
    const auto row = logits.row(t);
    const auto expert = std::span<const std::size_t>(routing.expert).subspan(t * active, active);
    const auto place = std::span<const std::size_t>(routing.place).subspan(t * active, active);
    if (rule.over_all) {
      softmax_row(row.data(), row.size());
      for (std::size_t c = 0; c < active; ++c) routing.weights[place[c]] = row[expert[c]];
    } else {
      thread_local std::vector<T> chosen;
      chosen.resize(active);
      for (std::size_t c = 0; c < active; ++c) chosen[c] = row[expert[c]];
      softmax_row(chosen.data(), active);
      for (std::size_t c = 0; c < active; ++c) routing.weights[place[c]] = chosen[c];
    }
  });
}

// With s = sum over the chosen of dL/dw_e w_e: dL/dl_e = w_e (dL/dw_e - s) for the chosen; for the others -p_j s where
// they are in the softmax, else 0.
template <class T>
void route_backward(const RoutingRule& rule, const Routing<T>& routing, MatrixView<T> logits) {
  const std::size_t active = rule.active;
  for_tokens(logits.rows(), [&](std::size_t t) {
    const auto row = logits.row(t);
    const auto place = std::span<const std::size_t>(routing.place).subspan(t * active, active);
    WideOf<T> sum{};
    for (const std::size_t p : place) sum += static_cast<WideOf<T>>(routing.gradient[p] * routing.weights[p]);
    const T mean = static_cast<T>(sum);
    for (T& value : row) value = rule.over_all ? -value * mean : T(0);
    for (std::size_t c = 0; c < active; ++c)
      row[routing.expert[t * active + c]] = routing.weights[place[c]] * (routing.gradient[place[c]] - mean);
  });
}

#define NIBBLE_INSTANTIATE(T)                                             \
  template void route<T>(const RoutingRule&, MatrixView<T>, Routing<T>&); \
  template void route_backward<T>(const RoutingRule&, const Routing<T>&, MatrixView<T>);
NIBBLE_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model
