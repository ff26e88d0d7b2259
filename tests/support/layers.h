#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/checkpoint/weights.h"

namespace nibble::test {

/// The linear layers of all blocks, as values.
inline std::vector<model::Parameter> layers_of(const model::Architecture& architecture) {
  std::vector<model::Parameter> layers;
  for (const model::Parameter* layer : model::linear_layers(architecture)) layers.push_back(*layer);
  return layers;
}

/// The matrix of that module: a linear layer, an embedding, the head.
inline const model::Parameter& parameter_called(const model::Architecture& architecture, const std::string& module) {
  for (const model::Parameter* parameter : model::matrices(architecture))
    if (parameter->module == module) return *parameter;
  throw std::out_of_range("no parameter is called " + module);
}

/// The values (out, in) of that matrix, or of the parts of a fused tensor of that name, one below the other.
inline std::vector<float> values_of(const model::WeightProvider& weights, const model::Architecture& architecture,
                                    const std::string& module) {
  std::vector<float> values;
  for (const model::Parameter* parameter : model::matrices(architecture)) {
    if (parameter->module != module && parameter->weight.tensor != module + ".weight") continue;
    const std::size_t before = values.size();
    values.resize(before + parameter->weights());
    weights.matrix(*parameter)->decode_rows(0, parameter->out, values.data() + before);
  }
  return values;
}

}  // namespace nibble::test
