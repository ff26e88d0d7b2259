#pragma once

#include <functional>
#include <memory>

#include "model/architecture/architecture.h"
#include "model/checkpoint/weights.h"
#include "model/transformer/layers/feed_forward.h"

namespace nibble::model {

/// The feed-forward half that `block` describes, over linear layers of `make_linear`. Biases of experts' `down` are
/// read from `weights` as well: gradients of a mixture's router need them. Throws InvalidArgument for a description
/// that contradicts itself, FormatError as make_linear and `weights` do.
template <class T>
std::unique_ptr<FeedForward<T>> make_feed_forward(
    const BlockSpec& block, const std::function<std::unique_ptr<LinearOp<T>>(const Parameter&)>& make_linear,
    const WeightProvider& weights);

}  // namespace nibble::model
