#include "quant/store/model_size.h"

#include <algorithm>
#include <optional>
#include <set>

#include "model/checkpoint/narrow_tensors.h"
#include "quant/store/quantization_config.h"

namespace nibble::quant {
namespace {

std::string float_text(DType dtype) {
  if (dtype == DType::kF16) return "float16";
  if (dtype == DType::kF32) return "float32";
  return dtype == DType::kBF16 ? "bfloat16" : std::string(dtype_name(dtype));
}

// Encoded rows may be plain floats too, only not where a checkpoint of the family has them.
std::string storage_name(const std::string& storage) {
  const auto dtype = dtype_from_name(storage);
  return dtype && is_float(*dtype) ? float_text(*dtype) : storage;
}

// A linear layer that is kept as floats: alone, or as rows of a fused tensor.
DType float_dtype(const model::Checkpoint& checkpoint, const model::Parameter& layer) {
  const std::string own = layer.weight_module + ".weight";
  const auto stored = model::find_tensor_name(checkpoint, layer.weight.tensor);
  return checkpoint.tensor(stored.value_or(own)).dtype;
}

// Full names of biases of the blocks that shifting added.
std::vector<std::string> added_biases(const model::Checkpoint& checkpoint, const model::Architecture& architecture,
                                      const std::optional<QuantizationConfig>& config) {
  std::vector<std::string> added;
  if (!config) return added;
  std::set<std::string> seen = config->kept_biases;
  for (const model::Parameter* layer : model::linear_layers(architecture)) {
    const std::string& bias = layer->bias.tensor;
    if (!layer->biased && checkpoint.contains(bias) && seen.insert(bias).second) added.push_back(bias);
  }
  return added;
}

}  // namespace

ModelSize measure_model(const model::Checkpoint& checkpoint, const model::Architecture& architecture,
                        const QuantizedWeights& quantized) {
  const model::NarrowTensors narrow_tensors(checkpoint);
  double bits = 0.0;
  std::uint64_t weights = 0;
  std::set<std::string> methods;
  for (const model::Parameter* layer : model::linear_layers(architecture)) {
    weights += layer->weights();
    if (const auto found = quantized.find(layer->weight_module); found != quantized.end()) {
      bits += static_cast<double>(found->second->tensor().stored_bits());
      methods.insert(storage_text(found->second->stored()));
    } else if (const auto narrow = narrow_tensors.find(layer->weight.tensor)) {
      bits += static_cast<double>(layer->weights()) * narrow->bits_per_weight();
      methods.insert(storage_name(narrow->storage()));
    } else {
      const DType dtype = float_dtype(checkpoint, *layer);
      bits += static_cast<double>(layer->weights() * dtype_size(dtype) * 8);
      methods.insert(float_text(dtype));
    }
  }
  const auto config = parse_quantization_config(checkpoint.metadata(), "config.json");
  for (const std::string& bias : added_biases(checkpoint, architecture, config))
    bits += static_cast<double>(checkpoint.tensor(bias).data.size() * 8);
  if (config)
    for (const auto& [name, before] : config->widened)
      if (checkpoint.contains(name)) {
        const model::TensorView tensor = checkpoint.tensor(name);
        const std::size_t wider = std::max(dtype_size(tensor.dtype), dtype_size(before)) - dtype_size(before);
        bits += static_cast<double>(tensor.element_count() * wider * 8);
      }

  ModelSize size;
  for (const auto& [module, weight] : quantized) size.parameters += weight->tensor().weights();
  for (const std::string& name : checkpoint.tensor_names()) {
    if (architecture.is_ignored(name)) continue;
    size.bytes += model::stored_bytes(checkpoint, name);
    if (const auto part = narrow_tensors.part_of(name)) {
      if (part->kind == model::NarrowPart::Kind::kCodes)
        size.parameters += narrow_tensors.find(part->tensor)->weights();
    } else if (!is_quantized_part(quantized, name)) {
      size.parameters += checkpoint.tensor(name).element_count();
    }
  }
  size.bits_per_weight = bits / static_cast<double>(weights);
  size.model_bits_per_weight = static_cast<double>(size.bytes) * 8.0 / static_cast<double>(size.parameters);
  size.method = methods.size() == 1 ? *methods.begin() : "mixed";
  return size;
}

}  // namespace nibble::quant
