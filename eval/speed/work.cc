#include "eval/speed/work.h"

#include <string>

#include "model/architecture/tensor_names.h"
#include "model/checkpoint/narrow_tensors.h"
#include "model/checkpoint/weights.h"

namespace nibble::eval {
namespace {

// Bytes of `module`'s weight, whatever parts a format stores it in.
std::uint64_t module_bytes(const model::Checkpoint& checkpoint, const std::string& module) {
  const model::TensorNames names(checkpoint.architecture());
  std::uint64_t bytes = 0;
  for (const std::string& name : checkpoint.tensor_names())
    if (names.canonical(name).starts_with(module + ".")) bytes += model::stored_bytes(checkpoint, name);
  return bytes;
}

}  // namespace

std::uint64_t weight_bytes_per_token(const model::Checkpoint& checkpoint, const model::Architecture& architecture) {
  std::uint64_t bytes = checkpoint.tensor_bytes();
  if (!architecture.head.tied) bytes -= module_bytes(checkpoint, architecture.embedding.module);
  if (architecture.positions) bytes -= module_bytes(checkpoint, architecture.positions->module);
  const model::NarrowTensors narrow_tensors(checkpoint);
  // Of a mixture's experts a token reads those that it chooses.
  double idle = 0.0;
  for (const model::Parameter* layer : model::linear_layers(architecture)) {
    if (!layer->expert) continue;
    const auto& experts = *architecture.blocks[layer->block].experts;
    const double share = 1.0 - static_cast<double>(experts.active) / static_cast<double>(experts.experts.size());
    const double weights = static_cast<double>(layer->weights());
    if (const auto narrow = narrow_tensors.find(layer->weight.tensor)) {
      idle += share * weights * narrow->bits_per_weight() / 8.0;
      continue;
    }
    const auto stored = model::find_tensor_name(checkpoint, layer->weight.tensor);
    idle += share * (stored ? weights * static_cast<double>(dtype_size(checkpoint.tensor(*stored).dtype))
                            : static_cast<double>(module_bytes(checkpoint, layer->weight_module)));
  }
  return bytes - static_cast<std::uint64_t>(idle);
}

std::uint64_t head_bytes(const model::Checkpoint& checkpoint, const model::Architecture& architecture) {
  return module_bytes(checkpoint, architecture.head.linear.weight_module);
}

}  // namespace nibble::eval
