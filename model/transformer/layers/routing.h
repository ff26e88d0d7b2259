#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/matrix/matrix_view.h"
#include "model/architecture/architecture.h"

namespace nibble::model {

/// Which experts each token of a batch goes to and with what weight. The choices also stand in an order of their own,
/// grouped by expert: the tokens of expert e, ascending, are tokens[starts[e]…starts[e + 1]); a choice's index there is
/// its place. Kept between calls.
template <class T>
struct Routing {
  std::size_t active = 0;
  std::vector<std::size_t> expert;   ///< (tokens, active): those chosen, ascending within a token
  std::vector<std::size_t> place;    ///< (tokens, active): where the choice stands below
  std::vector<std::size_t> starts;   ///< (experts + 1)
  std::vector<std::size_t> tokens;   ///< by place
  std::vector<T> weights, gradient;  ///< by place: the weight of the expert's output, and dL/d(weight)

  std::size_t rows_of(std::size_t e) const { return starts[e + 1] - starts[e]; }
  std::span<const std::size_t> tokens_of(std::size_t e) const {
    return std::span<const std::size_t>(tokens).subspan(starts[e], rows_of(e));
  }
};

/// How weights come of logits l: p = softmax(l), and w_e = p_e; or, where the chosen are renormalised or chosen before
/// the softmax, w = softmax of the chosen logits (which is p_e over the sum of the chosen p).
struct RoutingRule {
  std::size_t active = 0;
  bool over_all = true;  ///< w_e = p_e

  explicit RoutingRule(const ExpertsSpec& spec)
      : active(spec.active), over_all(spec.routing == ExpertsSpec::Routing::kSoftmaxThenTop && !spec.renormalise) {}
};

/// Chooses for each row of logits (tokens, experts) the `active` largest, of equal ones those of lower index; a NaN is
/// larger than all, so that it shows in the output. Replaces logits by p where rule.over_all. Softmax in T, with the
/// sum in double. O(tokens · experts · active), on all threads.
template <class T>
void route(const RoutingRule& rule, MatrixView<T> logits, Routing<T>& routing);

/// Turns what route() left in `logits` into dL/d(logits), given routing.gradient. The choice itself has no gradient.
template <class T>
void route_backward(const RoutingRule& rule, const Routing<T>& routing, MatrixView<T> logits);

}  // namespace nibble::model
