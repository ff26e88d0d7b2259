#include "model/checkpoint/unexpected_tensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "model/architecture/tensor_names.h"
#include "model/checkpoint/narrow_config.h"
#include "model/checkpoint/narrow_tensors.h"

namespace nibble::model {
namespace {

// With the biases that layers may have although nothing declares them.
std::set<std::string> expected_tensors(const Architecture& architecture) {
  std::set<std::string> names;
  for (FileTensor& tensor : file_tensors(architecture)) names.insert(std::move(tensor.name));
  for (const Parameter* const matrix : matrices(architecture))
    if (!architecture.undeclared_biases.contains(matrix->bias.tensor)) names.insert(matrix->bias.tensor);
  return names;
}

}  // namespace

std::vector<std::string> unexpected_tensors(const Checkpoint& checkpoint) {
  if (is_own_config(checkpoint.metadata(), checkpoint.directory().string())) return {};
  const Architecture& architecture = checkpoint.architecture();
  const std::set<std::string> expected = expected_tensors(architecture);
  const TensorNames names(architecture);
  const NarrowTensors narrow(checkpoint);
  std::vector<std::string> unexpected;
  for (const std::string& stored : checkpoint.tensor_names()) {
    const bool carried_along = architecture.is_ignored(stored) && !architecture.undeclared_biases.contains(stored);
    if (!expected.contains(names.canonical(stored)) && !carried_along && !narrow.part_of(stored))
      unexpected.push_back(stored);
  }
  return unexpected;
}

std::string describe_unexpected_tensors(const Checkpoint& checkpoint) {
  std::vector<std::string> names = unexpected_tensors(checkpoint);
  if (names.empty()) return {};
  constexpr std::size_t kShown = 8;
  const std::size_t count = names.size();
  names.resize(std::min(count, kShown));
  return fmt::format("'{}': config.json asks for no tensor {}{}: left out", checkpoint.directory().string(),
                     fmt::join(names, ", "), count > kShown ? fmt::format(" and {} more", count - kShown) : "");
}

}  // namespace nibble::model
