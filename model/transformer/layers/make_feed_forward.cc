#include "model/transformer/layers/make_feed_forward.h"

#include "core/error.h"
#include "model/transformer/layers/experts.h"
#include "model/transformer/layers/mlp.h"
#include "model/transformer/scalar.h"

namespace nibble::model {

template <class T>
std::unique_ptr<FeedForward<T>> make_feed_forward(
    const BlockSpec& block, const std::function<std::unique_ptr<LinearOp<T>>(const Parameter&)>& make_linear,
    const WeightProvider& weights) {
  NIBBLE_REQUIRE(block.mlp.has_value() != block.experts.has_value(), InvalidArgument,
                 "block {}: expected an MLP or a mixture of experts, got {}", block.attention.q.block,
                 block.mlp ? "both" : "neither");
  if (block.experts) return std::make_unique<Experts<T>>(*block.experts, make_linear, weights);
  return std::make_unique<Mlp<T>>(*block.mlp, make_linear);
}

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define NIBBLE_INSTANTIATE(T)                                    \
  template std::unique_ptr<FeedForward<T>> make_feed_forward<T>( \
      const BlockSpec&, const std::function<std::unique_ptr<LinearOp<T>>(const Parameter&)>&, const WeightProvider&);
// NOLINTEND(bugprone-macro-parentheses)
NIBBLE_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model
