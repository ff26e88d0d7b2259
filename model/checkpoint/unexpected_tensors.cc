#include "model/checkpoint/unexpected_tensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "model/architecture/tensor_names.h"
#include "model/checkpoint/narrow_config.h"
#include "model/checkpoint/narrow_tensors.h"
#include "model/checkpoint/weights.h"

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

// Whether a tied head, stored a second time, is the embedding. Only floats are compared, a few rows at a time.
bool is_the_embedding(const Checkpoint& checkpoint, const std::string& stored) {
  const Architecture& architecture = checkpoint.architecture();
  const auto embedding = find_tensor_name(checkpoint, architecture.head.linear.weight.tensor);
  if (!embedding) return true;
  const TensorView head = checkpoint.tensor(stored), table = checkpoint.tensor(*embedding);
  if (!is_float(head.dtype) || !is_float(table.dtype)) return true;
  const std::size_t count = head.element_count(), at_once = std::size_t{1} << 16;
  if (count != table.element_count()) return false;
  std::vector<float> a(at_once), b(at_once);
  bool same = true;
  for (std::size_t first = 0; first < count && same; first += at_once) {
    const std::size_t some = std::min(at_once, count - first);
    convert_to_f32(head.dtype, head.data.data() + first * dtype_size(head.dtype), some, a.data());
    convert_to_f32(table.dtype, table.data.data() + first * dtype_size(table.dtype), some, b.data());
    same = std::memcmp(a.data(), b.data(), some * sizeof(float)) == 0;  // NaN is NaN here
  }
  checkpoint.check_intact(head);
  checkpoint.release(head);
  return same;
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
    bool carried_along = architecture.is_ignored(stored) && !architecture.undeclared_biases.contains(stored);
    if (architecture.is_tied_head(stored)) carried_along = is_the_embedding(checkpoint, stored);
    if (!expected.contains(names.canonical(stored)) && !carried_along && !narrow.part_of(stored))
      unexpected.push_back(stored);
  }
  return unexpected;
}

std::string describe_unexpected_tensors(const Checkpoint& checkpoint) {
  const std::vector<std::string> unexpected = unexpected_tensors(checkpoint);
  std::string parts;
  if (const std::size_t others = checkpoint.tensors_of_other_parts(); others > 0)
    parts = fmt::format("'{}' sees as well: its language model is read, tensors of other parts are left out ({})",
                        checkpoint.directory().string(), others);
  if (unexpected.empty()) return parts;
  std::vector<std::string> names = unexpected;
  constexpr std::size_t kShown = 8;
  const std::size_t count = names.size();
  names.resize(std::min(count, kShown));
  const Architecture& architecture = checkpoint.architecture();
  std::string head;
  for (const std::string& name : unexpected)
    if (architecture.is_tied_head(name))
      head = fmt::format(
          " ({} is not the embedding, to which config.json ties the head: with tie_word_embeddings: false it counts)",
          name);
  return fmt::format("{}{}'{}': config.json asks for no tensor {}{}: left out{}", parts, parts.empty() ? "" : "; ",
                     checkpoint.directory().string(), fmt::join(names, ", "),
                     count > kShown ? fmt::format(" and {} more", count - kShown) : "", head);
}

std::vector<std::string> warnings(const Checkpoint& checkpoint) {
  std::vector<std::string> sentences;
  if (std::string sentence = describe_unexpected_tensors(checkpoint); !sentence.empty())
    sentences.push_back(std::move(sentence));
  if (const auto beyond = warning_of_special_tokens(checkpoint.architecture()))
    sentences.push_back(fmt::format("'{}': {}", checkpoint.directory().string(), *beyond));
  return sentences;
}

}  // namespace nibble::model
