#include "model/transformer/build.h"

namespace nibble::model {

std::unique_ptr<Model> make_model(const Architecture& architecture, const WeightProvider& weights) {
  return build_transformer<float>(architecture, weights, [&](const Parameter& layer) { return weights.linear(layer); });
}

}  // namespace nibble::model
