#pragma once

#include <complex>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "model/architecture/architecture.h"
#include "model/checkpoint/weights.h"

namespace nibble::test {

/// Random linear layers by module name, which hands out their biases as a provider of weights and makes operators of
/// any scalar. All values are floats, so every scalar has the same.
class ToyLayers : public model::WeightProvider {
 public:
  struct Layer {
    Matrix<double> weight;
    std::vector<double> bias;
  };
  explicit ToyLayers(std::uint64_t seed) : random_(seed) {}

  model::Parameter add(const std::string& module, std::size_t out, std::size_t in, bool biased) {
    model::Parameter p;
    p.module = module, p.out = out, p.in = in, p.biased = biased;
    p.weight = model::whole_matrix(module + ".weight", out, in);
    p.bias = model::whole_vector(module + ".bias", out);
    Layer& layer = layers[module];
    layer.weight = Matrix<double>(out, in);
    for (double& value : layer.weight.values()) value = draw() / std::sqrt(static_cast<double>(in));
    for (std::size_t i = 0; biased && i < out; ++i) layer.bias.push_back(0.3 * draw());
    for (double& value : layer.weight.values()) value = static_cast<double>(static_cast<float>(value));
    for (double& value : layer.bias) value = static_cast<double>(static_cast<float>(value));
    return p;
  }
  model::MlpSpec add_mlp(const std::string& name, model::Activation activation, bool gated, std::size_t hidden,
                         std::size_t intermediate, bool biased) {
    model::MlpSpec mlp;
    mlp.activation = activation, mlp.limit = 0.7, mlp.alpha = 1.702;
    if (gated) mlp.gate = add(name + ".gate", intermediate, hidden, biased);
    mlp.up = add(name + ".up", intermediate, hidden, biased);
    mlp.down = add(name + ".down", hidden, intermediate, biased);
    return mlp;
  }

  /// Makes dense operators; `change` may alter their weights.
  template <class T>
  std::function<std::unique_ptr<LinearOp<T>>(const model::Parameter&)> factory(
      std::function<void(const std::string& module, Matrix<T>& weight)> change = {}) const {
    return [this, change](const model::Parameter& p) -> std::unique_ptr<LinearOp<T>> {
      const Layer& layer = layers.at(p.module);
      Matrix<T> weight(p.out, p.in);
      for (std::size_t i = 0; i < weight.size(); ++i) weight.values()[i] = static_cast<T>(layer.weight.values()[i]);
      if (change) change(p.module, weight);
      std::vector<T> bias(layer.bias.begin(), layer.bias.end());
      return std::make_unique<DenseLinear<T>>(std::move(weight), std::move(bias));
    };
  }

  bool contains(const std::string& tensor) const override {
    return tensor.ends_with(".bias") && !layers.at(tensor.substr(0, tensor.size() - 5)).bias.empty();
  }
  std::vector<float> vector(const model::Stored& stored) const override {
    const auto& bias = layers.at(stored.tensor.substr(0, stored.tensor.size() - 5)).bias;
    return {bias.begin(), bias.end()};
  }
  std::shared_ptr<const WeightSource> matrix(const model::Parameter&) const override {
    throw InvalidArgument("toy layers have no matrices");
  }
  std::unique_ptr<LinearOp<float>> linear(const model::Parameter& p) const override { return factory<float>()(p); }

  std::map<std::string, Layer> layers;

 private:
  double draw() { return random_.normal(); }
  Random random_;
};

/// What hooks were shown, in order.
template <class T>
struct Reports {
  struct Report {
    std::string module;
    std::vector<std::size_t> rows;  ///< as told; empty for all
    Matrix<T> x, dy;
  };
  std::vector<Report> inputs, gradients;

  model::Hooks<T> hooks() {
    const auto copy = [](MatrixView<const T> view) {
      Matrix<T> m(view.rows(), view.cols());
      for (std::size_t r = 0; r < m.rows(); ++r) std::copy_n(view.row(r).data(), m.cols(), m.row(r).data());
      return m;
    };
    const auto list = [](const model::HookRows& rows) {
      return std::vector<std::size_t>(rows.indices.begin(), rows.indices.end());
    };
    return {[=, this](const std::string& module, MatrixView<const T> x, const model::HookRows& rows) {
              inputs.push_back({module, list(rows), copy(x), {}});
            },
            [=, this](const std::string& module, MatrixView<const T> x, MatrixView<const T> dy,
                      const model::HookRows& rows) {
              gradients.push_back({module, list(rows), copy(x), copy(dy)});
            }};
  }
};

template <class T>
Matrix<T> random_rows(std::size_t rows, std::size_t cols, std::uint64_t seed, double scale = 1.0) {
  Random random(seed);
  Matrix<T> m(rows, cols);
  for (T& value : m.values()) value = static_cast<T>(static_cast<double>(static_cast<float>(scale * random.normal())));
  return m;
}

// Plain loops over doubles.
namespace naive {

inline double activation(const model::MlpSpec& mlp, double gate, double up) {
  const double v = mlp.gate ? gate : up;
  double f = 0.0;
  switch (mlp.activation) {
    case model::Activation::kSilu:
      f = v / (1.0 + std::exp(-v));
      break;
    case model::Activation::kGeluTanh:
      f = 0.5 * v * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (v + 0.044715 * v * v * v)));
      break;
    case model::Activation::kGelu:
      f = 0.5 * v * (1.0 + std::erf(v / std::sqrt(2.0)));
      break;
    case model::Activation::kRelu:
      f = v > 0.0 ? v : 0.0;
      break;
    case model::Activation::kRelu2:
      f = v > 0.0 ? v * v : 0.0;
      break;
    case model::Activation::kClampedSwiglu: {
      const double g = gate < mlp.limit ? gate : mlp.limit;
      const double u = up < -mlp.limit ? -mlp.limit : up > mlp.limit ? mlp.limit : up;
      return g / (1.0 + std::exp(-mlp.alpha * g)) * (u + 1.0);
    }
  }
  return mlp.gate ? f * up : f;
}

inline std::vector<double> linear(const ToyLayers& layers, const model::Parameter& p, const std::vector<double>& x) {
  const ToyLayers::Layer& layer = layers.layers.at(p.module);
  std::vector<double> y(p.out);
  for (std::size_t o = 0; o < p.out; ++o) {
    y[o] = layer.bias.empty() ? 0.0 : layer.bias[o];
    for (std::size_t i = 0; i < p.in; ++i) y[o] += layer.weight(o, i) * x[i];
  }
  return y;
}

inline std::vector<double> mlp(const ToyLayers& layers, const model::MlpSpec& spec, const std::vector<double>& x) {
  const std::vector<double> up = linear(layers, spec.up, x);
  const std::vector<double> gate = spec.gate ? linear(layers, *spec.gate, x) : up;
  std::vector<double> inner(up.size());
  for (std::size_t i = 0; i < up.size(); ++i) inner[i] = activation(spec, gate[i], up[i]);
  return linear(layers, spec.down, inner);
}

}  // namespace naive
}  // namespace nibble::test
