#include "quant/store/model_size.h"

#include <set>

#include "core/error.h"
#include "model/checkpoint/tensor_checks.h"

namespace nibble::quant {
namespace {

std::string float_text(DType dtype) {
  if (dtype == DType::kF16) return "float16";
  if (dtype == DType::kF32) return "float32";
  return dtype == DType::kBF16 ? "bfloat16" : std::string(dtype_name(dtype));
}

// A linear layer of the blocks as it is stored: one part, or q, k and v.
std::vector<std::string> stored_parts(const std::string& module, const QuantizedWeights& quantized) {
  const std::vector<std::string> split{module + ".q", module + ".k", module + ".v"};
  for (const std::string& part : split)
    if (quantized.contains(part)) return split;
  return {module};
}

}  // namespace

std::vector<std::string> added_biases(const model::Checkpoint& checkpoint, const model::Config& config) {
  std::vector<std::string> added;
  for (const model::LinearLayer& layer : model::linear_layers(config)) {
    const bool attention = layer.module.find("attn.") != std::string::npos;
    const std::string bias = layer.module + ".bias";
    if (!(attention ? config.attention_bias : config.mlp_bias) && checkpoint.contains(bias)) added.push_back(bias);
  }
  return added;
}

ModelSize measure_model(const model::Checkpoint& checkpoint, const model::Config& config,
                        const QuantizedWeights& quantized) {
  std::uint64_t bits = 0, weights = 0;
  std::set<std::string> methods;
  for (const model::LinearLayer& layer : model::linear_layers(config)) {
    weights += static_cast<std::uint64_t>(layer.out) * layer.in;
    for (const std::string& part : stored_parts(layer.module, quantized)) {
      if (const auto found = quantized.find(part); found != quantized.end()) {
        bits += found->second->tensor().stored_bits();
        methods.insert(storage_text(found->second->stored()));
      } else {
        const std::string name = part + ".weight";
        const auto tensor = checkpoint.tensor(model::find_tensor_name(checkpoint, name).value_or(name));
        bits += tensor.data.size() * 8;
        methods.insert(float_text(tensor.dtype));
      }
    }
  }
  for (const std::string& bias : added_biases(checkpoint, config)) bits += checkpoint.tensor(bias).data.size() * 8;

  ModelSize size;
  for (const auto& [module, weight] : quantized) size.parameters += weight->tensor().weights();
  for (const std::string& name : checkpoint.tensor_names()) {
    if (model::is_ignored_buffer(name)) continue;
    const auto tensor = checkpoint.tensor(name);
    size.bytes += tensor.data.size();
    if (!is_quantized_part(quantized, name)) size.parameters += tensor.element_count();
  }
  size.bits_per_weight = static_cast<double>(bits) / static_cast<double>(weights);
  size.model_bits_per_weight = static_cast<double>(size.bytes) * 8.0 / static_cast<double>(size.parameters);
  size.method = methods.size() == 1 ? *methods.begin() : "mixed";
  return size;
}

}  // namespace nibble::quant
