#include "eval/speed/work.h"

#include "model/architecture/tensor_names.h"
#include "model/checkpoint/narrow_tensors.h"
#include "model/checkpoint/weights.h"

namespace nibble::eval {

WeightBytes::WeightBytes(const model::Checkpoint& checkpoint) : checkpoint_(checkpoint) {
  const model::Architecture& architecture = checkpoint.architecture();
  const model::TensorNames names(architecture);
  for (const std::string& name : checkpoint.tensor_names())
    if (!architecture.is_ignored(name)) bytes_[names.canonical(name)] += model::stored_bytes(checkpoint, name);
}

std::uint64_t WeightBytes::per_token() const {
  const model::Architecture& architecture = checkpoint_.architecture();
  std::uint64_t bytes = 0;
  for (const auto& [name, stored] : bytes_) bytes += stored;
  if (!architecture.head.tied) bytes -= of_module(architecture.embedding.module);
  if (architecture.positions) bytes -= of_module(architecture.positions->module);
  const model::NarrowTensors narrow_tensors(checkpoint_);
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
    const auto stored = model::find_tensor_name(checkpoint_, layer->weight.tensor);
    idle += share * (stored ? weights * static_cast<double>(dtype_size(checkpoint_.tensor(*stored).dtype))
                            : static_cast<double>(of_module(layer->weight_module)));
  }
  return bytes - static_cast<std::uint64_t>(idle);
}

std::uint64_t WeightBytes::head() const {
  const model::HeadSpec& head = checkpoint_.architecture().head;
  std::uint64_t bytes = of_module(head.linear.weight_module);
  // What is coded has the architecture's name, what stays float that of its family's files.
  if (!head.tied && head.module_of_files != head.linear.weight_module) bytes += of_module(head.module_of_files);
  return bytes;
}

std::uint64_t WeightBytes::of_module(const std::string& module) const {
  const std::string prefix = module + ".";
  std::uint64_t sum = 0;
  for (auto part = bytes_.lower_bound(prefix); part != bytes_.end() && part->first.starts_with(prefix); ++part)
    sum += part->second;
  return sum;
}

}  // namespace nibble::eval
