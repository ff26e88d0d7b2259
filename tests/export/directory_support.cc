#include "tests/export/directory_support.h"

#include <cstring>
#include <stdexcept>

#include "core/matrix/dtype.h"
#include "quant/store/model_weights.h"
#include "tests/support/fake_family.h"
#include "tests/support/files.h"
#include "tests/support/layers.h"

namespace nibble::test {
namespace {

std::string llama_of(int head_dim) {
  return fmt::format(R"({{"model_type": "llama", "vocab_size": 48, "hidden_size": 64, "intermediate_size": 96,
      "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": {},
      "max_position_embeddings": 64, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "hidden_act": "silu",
      "tie_word_embeddings": false, "torch_dtype": "float16"}})",
                     head_dim);
}

template <class T>
T value_at(const TinyTensor& tensor, std::size_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

Matrix<float> matrix_of(const model::WeightProvider& weights, const model::Parameter& parameter) {
  Matrix<float> values(parameter.out, parameter.in);
  weights.matrix(parameter)->decode_rows(0, parameter.out, values.data());
  return values;
}

Matrix<float> plain_mlx(const std::map<std::string, TinyTensor>& tensors, const std::string& module, unsigned bits) {
  const TinyTensor &weight = tensors.at(module + ".weight"), &scales = tensors.at(module + ".scales"),
                   &biases = tensors.at(module + ".biases");
  const std::size_t rows = weight.shape[0], words = weight.shape[1], cols = words * 32 / bits;
  const std::size_t groups = scales.shape[1];
  Matrix<float> values(rows, cols);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) {
      const std::size_t group = i * groups + j / (cols / groups);
      const unsigned code = bits_at(weight.bytes, i * words * 32 + j * bits, bits);
      values(i, j) = static_cast<float>(code) * float_at(scales, group) + float_at(biases, group);
    }
  return values;
}

Matrix<float> plain_compressed(const std::map<std::string, TinyTensor>& tensors, const std::string& module,
                               unsigned bits) {
  const TinyTensor &weight = tensors.at(module + ".weight_packed"), &scales = tensors.at(module + ".weight_scale");
  const TinyTensor& shape = tensors.at(module + ".weight_shape");
  const auto zeros = tensors.find(module + ".weight_zero_point");
  const auto rows = static_cast<std::size_t>(value_at<std::int64_t>(shape, 0));
  const auto cols = static_cast<std::size_t>(value_at<std::int64_t>(shape, 1));
  const std::size_t words = weight.shape[1], groups = scales.shape[1];
  Matrix<float> values(rows, cols);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) {
      const std::size_t group = j / (cols / groups);
      const auto code = static_cast<int>(bits_at(weight.bytes, i * words * 32 + j * bits, bits));
      int zero = 1 << (bits - 1);
      if (zeros != tensors.end()) {  // bit b of the stream along the rows is bit b % 32 of word (b / 32, group)
        zero = 0;
        for (unsigned b = 0; b < bits; ++b) {
          const std::size_t bit = i * bits + b;
          const auto word = value_at<std::uint32_t>(zeros->second, bit / 32 * groups + group);
          zero |= static_cast<int>(word >> (bit % 32) & 1u) << b;
        }
      }
      values(i, j) = static_cast<float>(code - zero) * float_at(scales, i * groups + group);
    }
  return values;
}

Matrix<float> plain_gptq(const std::map<std::string, TinyTensor>& tensors, const std::string& module, unsigned bits,
                         bool second_version) {
  const TinyTensor &weight = tensors.at(module + ".qweight"), &zeros = tensors.at(module + ".qzeros"),
                   &scales = tensors.at(module + ".scales"), &index = tensors.at(module + ".g_idx");
  const std::size_t rows = weight.shape[1], cols = index.shape[0];
  Matrix<float> values(rows, cols);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) {
      const auto group = static_cast<std::size_t>(value_at<std::int32_t>(index, j));
      int code = 0;  // bit b of column i's stream is bit b % 32 of word (b / 32, i)
      for (unsigned b = 0; b < bits; ++b) {
        const std::size_t bit = j * bits + b;
        code |= static_cast<int>(value_at<std::uint32_t>(weight, bit / 32 * rows + i) >> (bit % 32) & 1u) << b;
      }
      const int zero = static_cast<int>(bits_at(zeros.bytes, group * zeros.shape[1] * 32 + i * bits, bits)) +
                       (second_version ? 0 : 1);
      values(i, j) = static_cast<float>(code - zero) * float_at(scales, group * rows + i);
    }
  return values;
}

Matrix<float> plain_awq(const std::map<std::string, TinyTensor>& tensors, const std::string& module) {
  const TinyTensor &weight = tensors.at(module + ".qweight"), &zeros = tensors.at(module + ".qzeros"),
                   &scales = tensors.at(module + ".scales");
  const std::size_t cols = weight.shape[0], words = weight.shape[1], rows = words * 8;
  const std::size_t length = cols / scales.shape[0];
  constexpr std::size_t kOutputOfNibble[] = {0, 2, 4, 6, 1, 3, 5, 7};
  Matrix<float> values(rows, cols);
  for (std::size_t k = 0; k < cols; ++k)
    for (std::size_t w = 0; w < words; ++w)
      for (std::size_t n = 0; n < 8; ++n) {
        const std::size_t i = 8 * w + kOutputOfNibble[n], group = k / length;
        const auto code = static_cast<int>(value_at<std::uint32_t>(weight, k * words + w) >> (4 * n) & 15u);
        const auto zero = static_cast<int>(value_at<std::uint32_t>(zeros, group * words + w) >> (4 * n) & 15u);
        values(i, k) = static_cast<float>(code - zero) * float_at(scales, group * rows + i);
      }
  return values;
}

}  // namespace

std::string narrow_llama_config() { return llama_of(4); }
std::string llama_config() { return llama_of(8); }

void write_model(const std::filesystem::path& directory, const std::string& config) {
  write_random_checkpoint(directory, config, 7);
}

exporting::ExportResult export_to(std::string_view format, const std::filesystem::path& model,
                                  const std::filesystem::path& output, exporting::ExportOptions options) {
  return exporting::export_checkpoint({.model = model,
                                       .output = output,
                                       .exporter = exporting::find_exporter(format),
                                       .options = std::move(options),
                                       .overwrite = true,
                                       .progress = {}});
}

std::map<std::string, TinyTensor> tensors_of(const std::filesystem::path& directory) {
  const auto checkpoint = model::Checkpoint::open(directory);
  std::map<std::string, TinyTensor> tensors;
  for (const std::string& name : checkpoint->tensor_names()) {
    const model::TensorView view = checkpoint->tensor(name);
    tensors[name] = {name, std::string(dtype_name(view.dtype)), view.shape,
                     std::string(reinterpret_cast<const char*>(view.data.data()), view.data.size())};
  }
  return tensors;
}

void replace_tensors(const std::filesystem::path& directory, const std::map<std::string, TinyTensor>& tensors) {
  std::vector<TinyTensor> list;
  for (const auto& [name, tensor] : tensors) list.push_back(tensor);
  write_checkpoint(directory, read_file(directory / "config.json"), list);
}

nlohmann::json config_json_of(const std::filesystem::path& directory) {
  return nlohmann::json::parse(read_file(directory / "config.json"));
}

void replace_config(const std::filesystem::path& directory, const nlohmann::json& config) {
  write_file(directory / "config.json", config.dump());
}

unsigned bits_at(std::string_view bytes, std::size_t at, unsigned width) {
  unsigned value = 0;
  for (unsigned b = 0; b < width; ++b) {
    const std::size_t bit = at + b;
    value |= (static_cast<unsigned>(static_cast<unsigned char>(bytes.at(bit / 8))) >> (bit % 8) & 1u) << b;
  }
  return value;
}

float float_at(const TinyTensor& tensor, std::size_t index) {
  if (tensor.dtype == "F32") return value_at<float>(tensor, index);
  if (tensor.dtype == "F16") return f16_to_f32(value_at<std::uint16_t>(tensor, index));
  throw std::invalid_argument(tensor.name + " is " + tensor.dtype);
}

Matrix<float> plain_values(std::string_view format, const std::map<std::string, TinyTensor>& tensors,
                           const std::string& module, unsigned bits, bool second_version) {
  if (format == "mlx") return plain_mlx(tensors, module, bits);
  if (format == "compressed-tensors") return plain_compressed(tensors, module, bits);
  if (format == "gptq") return plain_gptq(tensors, module, bits, second_version);
  if (format == "awq") return plain_awq(tensors, module);
  throw std::invalid_argument(std::string(format));
}

Matrix<float> nibble_values(const std::filesystem::path& directory, const std::string& module) {
  const auto checkpoint = model::Checkpoint::open(directory);
  return matrix_of(*quant::make_weight_provider(checkpoint), parameter_called(checkpoint->architecture(), module));
}

Matrix<float> read_values(std::string_view format, const std::filesystem::path& output,
                          const std::filesystem::path& model, const std::string& module) {
  const exporting::ExportModel exported(model);
  return matrix_of(*exporting::find_exporter(format).read(output, exported),
                   parameter_called(exported.architecture(), module));
}

}  // namespace nibble::test
