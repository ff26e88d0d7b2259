#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/matrix/gemm.h"
#include "model/transformer/transformer.h"

namespace nibble::test {

/// What goes into a loss: sequences of tokens, a target and a weight for each row.
template <class T>
struct LossInput {
  std::vector<TokenId> tokens;
  std::vector<std::size_t> starts;
  std::vector<std::int64_t> targets;  ///< -1: none
  std::vector<T> weights;

  model::Batch batch() const { return {tokens, starts}; }
};

/// The residual stream before each block and before the head.
template <class T>
std::vector<Matrix<T>> boundary_activations(const model::Transformer<T>& network, const model::Batch& batch,
                                            Matrix<T> x) {
  std::vector<Matrix<T>> boundaries;
  for (std::size_t block = 0; block < network.architecture().blocks.size(); ++block) {
    boundaries.push_back(x);
    network.forward_block(block, batch, x, {}, nullptr);
  }
  boundaries.push_back(std::move(x));
  return boundaries;
}

template <class T>
Matrix<T> embedded(const model::Transformer<T>& network, const model::Batch& batch) {
  Matrix<T> x(batch.tokens.size(), network.architecture().hidden);
  network.embed(batch, x);
  return x;
}

/// Sum of weighted losses, given the residual stream x before block 0.
template <class T>
T loss_of(const model::Transformer<T>& network, const LossInput<T>& input, Matrix<T> x) {
  const auto boundaries = boundary_activations(network, input.batch(), std::move(x));
  std::vector<T> losses(input.tokens.size());
  Matrix<T> dx(losses.size(), network.architecture().hidden);
  network.backward_head(boundaries.back(), input.targets, input.weights, losses, dx, nullptr);
  T sum{};
  for (std::size_t r = 0; r < losses.size(); ++r) sum += input.weights[r] * losses[r];
  return sum;
}

/// Runs forward and backward; `hooks` see every linear layer, the head included. Returns dL/dx before block 0;
/// `losses` gets the loss of each row.
template <class T>
Matrix<T> run_backward(const model::Transformer<T>& network, const LossInput<T>& input, const model::Hooks<T>& hooks,
                       std::vector<T>* losses = nullptr) {
  const auto boundaries = boundary_activations(network, input.batch(), embedded(network, input.batch()));
  std::vector<T> row_losses(input.tokens.size());
  Matrix<T> dx(row_losses.size(), network.architecture().hidden);
  network.backward_head(boundaries.back(), input.targets, input.weights, row_losses, dx, &hooks);
  for (std::size_t block = network.architecture().blocks.size(); block-- > 0;)
    network.backward_block(block, input.batch(), boundaries[block], dx, &hooks);
  if (losses != nullptr) *losses = row_losses;
  return dx;
}

/// dYᵀ X (out, in).
template <class T>
Matrix<T> weight_gradient(MatrixView<const T> x, MatrixView<const T> dy) {
  Matrix<T> gradient(dy.cols(), x.cols());
  gemm<T>(Transpose::kYes, Transpose::kNo, T(1), dy, x, T(0), gradient);
  return gradient;
}

/// dL/dW of every linear layer by module name (the head's summed over its chunks).
template <class T>
std::map<std::string, Matrix<T>> weight_gradients(const model::Transformer<T>& network, const LossInput<T>& input) {
  std::map<std::string, Matrix<T>> gradients;
  model::Hooks<T> hooks;
  hooks.on_linear_gradient = [&](const std::string& module, MatrixView<const T> x, MatrixView<const T> dy,
                                 const model::HookRows&) {
    Matrix<T> part = weight_gradient<T>(x, dy);
    const auto [found, fresh] = gradients.try_emplace(module, part);
    if (fresh) return;
    for (std::size_t i = 0; i < part.size(); ++i) found->second.values()[i] += part.values()[i];
  };
  run_backward(network, input, hooks);
  return gradients;
}

}  // namespace nibble::test
