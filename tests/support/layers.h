#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"

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

}  // namespace nibble::test
