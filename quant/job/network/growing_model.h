#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/checkpoint/weights.h"
#include "model/transformer/transformer.h"

namespace nibble::quant {

/// A float model whose linear layers are replaced by quantized ones, one after the other.
class GrowingModel {
 public:
  /// `replaced`: matrices without bias (embeddings, the head) that are other than the checkpoint's from the start, by
  /// module.
  GrowingModel(const model::Architecture& architecture, std::shared_ptr<const model::WeightProvider> weights,
               std::map<std::string, std::shared_ptr<const WeightSource>> replaced);
  ~GrowingModel();

  const model::Model& model() const { return *model_; }
  const model::WeightProvider& weights() const { return *weights_; }
  /// From now on the layer is X Wᵀ + bias with this weight (out, in); `bias` is empty or has its rows. Returns what it
  /// was.
  std::unique_ptr<LinearOp<float>> replace(const std::string& module, std::shared_ptr<const WeightSource> weight,
                                           std::vector<float> bias);
  /// The layer is what replace() returned, again.
  void put_back(const std::string& module, std::unique_ptr<LinearOp<float>> former);

 private:
  class Layer;
  std::shared_ptr<const model::WeightProvider> weights_;
  std::map<std::string, Layer*> layers_;  // owned by model_
  std::unique_ptr<model::Model> model_;
};

}  // namespace nibble::quant
