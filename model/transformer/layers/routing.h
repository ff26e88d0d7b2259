#pragma once

#include <cstddef>
#include <span>
#include <utility>
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

/// How an ExpertsSpec's choices and weights come of logits l. Softmax of the chosen logits is p_e = softmax(l)_e over
/// the sum of the chosen p, and what renormalised probabilities are where nothing but logits decides the choice.
struct RoutingRule {
  enum class Scores { kProbabilities, kSigmoids, kOfChosen };
  Scores scores = Scores::kProbabilities;
  std::size_t active = 0;
  bool renormalise = false;
  std::size_t groups = 1, active_groups = 1;
  double scale = 1.0;
  std::vector<float> correction;  ///< one per expert, or empty

  explicit RoutingRule(const ExpertsSpec& spec, std::vector<float> correction_of_experts = {})
      : active(spec.active),
        renormalise(spec.renormalise),
        groups(spec.groups),
        active_groups(spec.active_groups),
        scale(spec.scale),
        correction(std::move(correction_of_experts)) {
    using Rule = ExpertsSpec::Routing;
    const bool by_logits_alone = renormalise && !reorders();
    if (spec.routing == Rule::kSigmoidThenTop) {
      scores = Scores::kSigmoids;
    } else if (spec.routing == Rule::kTopThenSoftmax || by_logits_alone) {
      scores = Scores::kOfChosen;
    }
  }

  /// Whether another order than that of the logits decides.
  bool reorders() const { return !correction.empty() || groups > 1; }
};

/// Chooses for each row of logits (tokens, experts) the `active` experts of most score and correction, and groups by
/// the same rule, of equal ones those of lower index; a NaN is larger than all, so that it shows in the output.
/// Replaces logits by the scores, but for kOfChosen. Softmax in T, with sums in double. O(tokens · experts · active),
/// on all threads.
template <class T>
void route(const RoutingRule& rule, MatrixView<T> logits, Routing<T>& routing);

/// Turns what route() left in `logits` into dL/d(logits), given routing.gradient. The choice itself has no gradient.
template <class T>
void route_backward(const RoutingRule& rule, const Routing<T>& routing, MatrixView<T> logits);

}  // namespace nibble::model
