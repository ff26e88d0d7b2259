#include "tests/model/transformer/golden_files.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "core/matrix/dtype.h"
#include "model/checkpoint/safetensors_file.h"
#include "tests/support/files.h"
#include "tests/support/sanitizers.h"

namespace nibble::test {

struct GoldenTensors::Contents {
  std::string bytes;
  model::SafetensorsContents parsed;

  const model::TensorView& find(const std::string& name, DType dtype) const {
    for (const auto& tensor : parsed.tensors)
      if (tensor.name == name && tensor.dtype == dtype) return tensor;
    throw std::runtime_error("the golden file has no such tensor: " + name);
  }
};

GoldenTensors::GoldenTensors(const std::filesystem::path& file) : contents_(std::make_unique<Contents>()) {
  contents_->bytes = read_file(file);
  contents_->parsed = model::parse_safetensors(std::as_bytes(std::span(contents_->bytes)), file.string());
}
GoldenTensors::~GoldenTensors() = default;

bool GoldenTensors::contains(const std::string& name) const {
  return std::any_of(contents_->parsed.tensors.begin(), contents_->parsed.tensors.end(),
                     [&](const auto& tensor) { return tensor.name == name; });
}

Matrix<float> GoldenTensors::matrix(const std::string& name) const {
  const auto& tensor = contents_->find(name, DType::kF32);
  const std::size_t cols = tensor.shape.back();
  Matrix<float> result(tensor.element_count() / cols, cols);
  convert_to_f32(DType::kF32, tensor.data.data(), result.size(), result.data());
  return result;
}

std::vector<std::uint32_t> GoldenTensors::ids(const std::string& name) const {
  for (const auto& tensor : contents_->parsed.tensors) {
    if (tensor.name != name || tensor.dtype != DType::kI64) continue;
    std::vector<std::int64_t> wide(tensor.element_count());
    std::memcpy(wide.data(), tensor.data.data(), tensor.data.size());
    return {wide.begin(), wide.end()};
  }
  const auto& tensor = contents_->find(name, DType::kI32);
  std::vector<std::uint32_t> result(tensor.element_count());
  std::memcpy(result.data(), tensor.data.data(), tensor.data.size());
  return result;
}

std::vector<double> GoldenTensors::doubles(const std::string& name) const {
  const auto& tensor = contents_->find(name, DType::kF64);
  std::vector<double> result(tensor.element_count());
  std::memcpy(result.data(), tensor.data.data(), tensor.data.size());
  return result;
}

std::vector<std::string> GoldenTensors::names() const {
  std::vector<std::string> names;
  for (const auto& tensor : contents_->parsed.tensors) names.push_back(tensor.name);
  return names;
}

std::ostream& operator<<(std::ostream& stream, const GoldenModel& model) { return stream << model.name; }

std::filesystem::path GoldenModel::model_directory() const {
  return in_repository ? source_path(std::string("datasets/demo/") + name) : shared_path(std::string("models/") + name);
}
std::filesystem::path GoldenModel::golden(const char* file) const {
  const std::string relative = std::string("golden/") + name + "/" + file;
  return in_repository ? source_path("tests/data/" + relative) : shared_path(relative);
}
std::optional<std::string> GoldenModel::reason_to_skip() const {
  if (!in_repository && !std::filesystem::exists(model_directory())) return "needs ../shared";
  if (kAddressSanitizer && large) return "slow there: the demo models go through the same code";
  return {};
}

LoadedModel load(const std::filesystem::path& directory) {
  LoadedModel loaded;
  loaded.checkpoint = model::Checkpoint::open(directory);
  loaded.architecture = loaded.checkpoint->architecture();
  loaded.model = model::make_model(loaded.architecture, *model::make_float_provider(loaded.checkpoint));
  return loaded;
}

}  // namespace nibble::test
