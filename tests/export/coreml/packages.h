#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "export/coreml/network.h"
#include "export/coreml/package.h"
#include "quant/store/model_weights.h"

namespace nibble::test {

/// Writes a checkpoint, float or quantized, as a package with these functions, by the parts of export/coreml alone:
/// forms and sizes that the exporter does not offer.
inline void write_test_package(const std::filesystem::path& model, const std::filesystem::path& output,
                               const std::vector<std::pair<std::string, coreml::NetworkForm>>& functions) {
  const auto checkpoint = model::Checkpoint::open(model);
  const auto quantized = quant::open_quantized_weights(checkpoint);
  const auto provider = quant::make_weight_provider(checkpoint, quantized);
  coreml::ConstantPool pool;
  const coreml::NetworkWeights weights{
      *provider, [&](const model::Parameter& parameter, coreml::Rows rows, coreml::ConstantPool& constants) {
        const auto found = quantized.find(parameter.weight_module);
        if (found == quantized.end())
          return coreml::plan_float_weight(constants.blobs(), provider->matrix(parameter), rows,
                                           parameter.weight_module, constants.rounding());
        return coreml::plan_coded_weight(constants.blobs(), {found->second, &found->second->tensor()}, rows,
                                         constants.rounding());
      }};
  coreml::Model package;
  package.specification_version = coreml::kSpecificationVersion;
  for (const auto& [name, form] : functions) {
    coreml::Network network = coreml::build_network(checkpoint->architecture(), weights, form, pool);
    package.functions[name] = std::move(network.function);
    package.interfaces[name] = std::move(network.interface);
  }
  if (functions.front().first != coreml::kMainFunction) package.default_function = functions.front().first;
  std::filesystem::create_directories(output);
  coreml::write_package(output, package, pool.blobs(), {});
}

}  // namespace nibble::test
