#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quant/job/network/growing_model.h"
#include "quant/job/plan/plan.h"
#include "quant/job/shards/shard.h"
#include "quant/recipe/recipe.h"
#include "quant/tuning/adam.h"
#include "quant/tuning/tunable_tensor.h"

namespace nibble::quant {

/// A quantized model whose palettes, scales and biases can be trained: it computes with what would be stored of them.
class TunedNetwork {
 public:
  /// Starts from `shards` (in the order of plan.items). Throws FormatError.
  TunedNetwork(const std::shared_ptr<const model::Checkpoint>& checkpoint, const model::Architecture& architecture,
               const Plan& plan, std::span<const Shard> shards, const Tuning& tuning);
  ~TunedNetwork();

  const model::Model& model() const { return network_->model(); }
  /// For backward passes: keeps each layer's gradients, those of the last pass, for one step(). Those of an expert that
  /// no token chose are 0.
  const model::Hooks<float>& hooks() const { return hooks_; }
  /// One step of Adam for all free values; `rate` in their units. Positions of free codes move by `code_step`.
  void step(double rate, double code_step);

  /// The free values as they are, layer by layer, their gradients in the same order, and back to other values. Behind
  /// them the state has the positions of free codes.
  LargeVector<float> state() const;
  std::vector<double> gradient() const;
  void restore(std::span<const float> state);

  /// What is stored of plan.items[item] now; null for those that are not tuned.
  std::shared_ptr<const QuantizedTensor> tensor(std::size_t item) const;
  /// What the bias of item's layer has beyond the original one, in the item's rows; empty where it is not tuned.
  std::vector<float> bias_correction(std::size_t item) const;

 private:
  struct Weight;
  struct Bias;
  struct Layer;
  void add_layers(std::span<const Shard> shards, const model::Checkpoint& checkpoint);
  void take_gradient(Layer& layer, MatrixView<const float> x, MatrixView<const float> dy);
  static std::shared_ptr<const WeightSource> unscaled(const Weight& weight);
  void refresh(Layer& layer);
  template <class Visit>
  void for_each_free(const Visit& visit) const;

  const Plan& plan_;
  Tuning tuning_;
  std::optional<GrowingModel> network_;
  std::map<std::string, std::unique_ptr<Layer>> layers_;
  model::Hooks<float> hooks_;
  LargeVector<float> gradient_;  // (out, in) of one layer
};

}  // namespace nibble::quant
