#pragma once

#include <functional>
#include <memory>

#include "model/transformer/transformer.h"

namespace nibble::model {

/// Makes the operator of one linear layer of the blocks, of a router, or of the head.
template <class T>
using LinearFactory = std::function<std::unique_ptr<LinearOp<T>>(const Parameter&)>;

/// The network of `architecture` over linear layers of `make_linear`; embeddings and norms come from `weights`. What
/// make_model() and make_dense_transformer() are made of; tests use it to plug in operators of their own.
/// Throws FormatError for missing tensors or wrong shapes, by name.
template <class T>
std::unique_ptr<Transformer<T>> build_transformer(const Architecture& architecture, const WeightProvider& weights,
                                                  const LinearFactory<T>& make_linear);

/// A layer's weight and bias, decoded and held densely.
template <class T>
std::unique_ptr<DenseLinear<T>> make_dense_linear(const Parameter& layer, const WeightProvider& weights);

}  // namespace nibble::model
