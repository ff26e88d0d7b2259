#include "eval/speed/work.h"

#include <map>
#include <string>

#include "model/architecture/tensor_names.h"
#include "model/checkpoint/narrow_tensors.h"
#include "model/checkpoint/weights.h"

namespace nibble::eval {
namespace {

// Bytes of all tensors that the network reads, by their names in the architecture; mixtures have ten thousands.
class StoredBytes {
 public:
  explicit StoredBytes(const model::Checkpoint& checkpoint) {
    const model::Architecture& architecture = checkpoint.architecture();
    const model::TensorNames names(architecture);
    for (const std::string& name : checkpoint.tensor_names())
      if (!architecture.is_ignored(name)) bytes_[names.canonical(name)] += model::stored_bytes(checkpoint, name);
  }

  std::uint64_t all() const {
    std::uint64_t sum = 0;
    for (const auto& [name, bytes] : bytes_) sum += bytes;
    return sum;
  }
  // Of a module's weight, whatever parts a format stores it in.
  std::uint64_t of_module(const std::string& module) const {
    const std::string prefix = module + ".";
    std::uint64_t sum = 0;
    for (auto part = bytes_.lower_bound(prefix); part != bytes_.end() && part->first.starts_with(prefix); ++part)
      sum += part->second;
    return sum;
  }

 private:
  std::map<std::string, std::uint64_t, std::less<>> bytes_;
};

}  // namespace

std::uint64_t weight_bytes_per_token(const model::Checkpoint& checkpoint, const model::Architecture& architecture) {
  const StoredBytes stored_bytes(checkpoint);
  std::uint64_t bytes = stored_bytes.all();
  if (!architecture.head.tied) bytes -= stored_bytes.of_module(architecture.embedding.module);
  if (architecture.positions) bytes -= stored_bytes.of_module(architecture.positions->module);
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
                            : static_cast<double>(stored_bytes.of_module(layer->weight_module)));
  }
  return bytes - static_cast<std::uint64_t>(idle);
}

std::uint64_t head_bytes(const model::Checkpoint& checkpoint, const model::Architecture& architecture) {
  const StoredBytes stored_bytes(checkpoint);
  const model::HeadSpec& head = architecture.head;
  std::uint64_t bytes = stored_bytes.of_module(head.linear.weight_module);
  // What is coded has the architecture's name, what stays float that of its family's files.
  if (!head.tied && head.module_of_files != head.linear.weight_module)
    bytes += stored_bytes.of_module(head.module_of_files);
  return bytes;
}

}  // namespace nibble::eval
