#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "export/coreml/graph.h"
#include "export/coreml/weight_constant.h"
#include "model/architecture/architecture.h"
#include "model/checkpoint/weights.h"

namespace nibble::coreml {

/// The two forms of a network. Both compute in float16.
enum class Layout {
  kGpu,  ///< any number of tokens per call, one state for all keys and one for all values, written in place
  kAne,  ///< static shapes, states of their own for each block that slide, keys transposed
};

/// Where a network's weights come from: vectors and biases from the provider, matrices as constants of `plan`.
struct NetworkWeights {
  const model::WeightProvider& provider;
  /// Rows of a matrix, planned into the pool's blobs.
  std::function<Constant(const model::Parameter&, Rows, ConstantPool&)> matrix;
};

/// The layers that both forms share, over x (1, tokens, width).
class Layers {
 public:
  /// `positions`: how many positions there are tables for.
  Layers(Graph& graph, const NetworkWeights& weights, Layout layout, std::size_t positions)
      : g_(graph), weights_(weights), layout_(layout), positions_(positions) {}

  Graph& graph() { return g_; }
  Layout layout() const { return layout_; }

  /// All rows of a matrix, or some.
  Var weight(const model::Parameter& parameter);
  Var weight_rows(const model::Parameter& parameter, Rows rows);
  /// X Wᵀ + b.
  Var linear(const Var& x, const model::Parameter& parameter, const std::string& name);
  /// Of some outputs.
  Var linear_rows(const Var& x, const model::Parameter& parameter, Rows rows, const std::string& name);
  /// Over the last axis, which has the norm's width; before it may stand an axis of heads, each with gains of its own.
  /// On the GPU the mean of squares is taken in float32. On the Neural Engine, which has no float32, the norm of x is
  /// the layer norm of (x, -x), whose mean is 0 and which no square of x overflows.
  Var norm(const Var& x, const model::NormSpec& spec, const std::string& name);
  Var mlp(const Var& x, const model::MlpSpec& spec, const std::string& name);
  /// x (1, heads, tokens, head_dim), turned by the angles of `positions` (tokens), int32.
  Var rotary(const Var& x, const model::RotarySpec& spec, const Var& positions, const std::string& name);
  /// c tanh(x / c).
  Var softcap(const Var& x, double cap, const std::string& name);
  /// x · factor, or x where that is 1.
  Var scaled(const Var& x, double factor, const std::string& name);
  /// Between -limit and limit.
  Var clipped(const Var& x, double limit, const std::string& name);

 private:
  struct Turning {
    model::RotarySpec spec;
    Var cosines, sines;  // (1, 1, tokens, dims)
  };
  const Turning& turning(const model::RotarySpec& spec, const Var& positions);
  Var vector(std::span<const float> values, const std::vector<std::uint64_t>& shape, const std::string& name);
  Var rms(const Var& x, double epsilon, const std::string& name);
  Var activated(const Var& x, model::Activation activation, const std::string& name);

  Graph& g_;
  const NetworkWeights& weights_;
  Layout layout_;
  std::size_t positions_;
  std::vector<Turning> turnings_;
};

}  // namespace nibble::coreml
