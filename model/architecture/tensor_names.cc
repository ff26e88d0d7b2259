#include "model/architecture/tensor_names.h"

namespace nibble::model {

TensorNames::TensorNames(const Architecture& architecture)
    : prefix_(architecture.prefix), lack_prefix_(architecture.names_lack_prefix) {
  for (FileTensor& tensor : file_tensors(architecture)) known_.insert(std::move(tensor.name));
}

std::string TensorNames::canonical(std::string_view stored) const {
  if (prefix_.empty() || known_.contains(stored)) return std::string(stored);
  const bool prefixed = stored.starts_with(prefix_);
  if (lack_prefix_) return std::string(prefixed ? stored.substr(prefix_.size()) : stored);
  std::string with = prefix_ + std::string(stored);
  return known_.contains(with) ? with : std::string(stored);
}

std::string full_name(const Architecture& architecture, const std::string& tensor) {
  const Parameter& head = architecture.head.linear;
  const bool of_head = !architecture.head.tied && (tensor == head.weight.tensor || tensor == head.bias.tensor);
  return architecture.names_lack_prefix && !of_head ? architecture.prefix + tensor : tensor;
}

}  // namespace nibble::model
