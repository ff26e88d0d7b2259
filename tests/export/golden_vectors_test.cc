#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "core/text/json.h"
#include "tests/export/directory_support.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"

// Matrices that the programs themselves quantized and packed: read exactly, and packed into the same bytes.

namespace nibble::test {
namespace {

constexpr const char* kVectors = "golden/exports/golden_vectors.json";

struct Vector {
  std::string name;    // in the file
  std::string format;  // of Nibble
  unsigned bits;
  std::size_t group;  // 0: whole rows
  bool zero_points = false;
  bool packs = true;  // false: what the program chose is nothing that Nibble would write
};

const Vector kAll[] = {
    {"mlx affine 2 bits, group 32", "mlx", 2, 32},
    {"mlx affine 3 bits, group 32", "mlx", 3, 32},
    {"mlx affine 4 bits, group 32", "mlx", 4, 32},
    {"mlx affine 4 bits, group 64", "mlx", 4, 64},
    {"mlx affine 5 bits, group 32", "mlx", 5, 32},
    {"mlx affine 6 bits, group 32", "mlx", 6, 32},
    // At 8 bits its own choice of scale and bias is no zero point.
    {"mlx affine 8 bits, group 32", "mlx", 8, 32, false, false},
    {"compressed-tensors pack-quantized 2 bits, group 32, symmetric", "compressed-tensors", 2, 32},
    {"compressed-tensors pack-quantized 3 bits, group 32, symmetric", "compressed-tensors", 3, 32},
    {"compressed-tensors pack-quantized 4 bits, group 32, symmetric", "compressed-tensors", 4, 32},
    {"compressed-tensors pack-quantized 4 bits, channel, symmetric", "compressed-tensors", 4, 0},
    {"compressed-tensors pack-quantized 8 bits, group 32, symmetric", "compressed-tensors", 8, 32},
    {"compressed-tensors pack-quantized 4 bits, group 32, asymmetric", "compressed-tensors", 4, 32, true},
    {"gptq v1 4 bits, group 32, symmetric", "gptq", 4, 32},
    {"gptq v1 8 bits, group 32, symmetric", "gptq", 8, 32},
    // Nibble writes zero points in version 2 alone.
    {"gptq v1 4 bits, group 32, asymmetric", "gptq", 4, 32, false, false},
    {"gptq v2 4 bits, group 32, asymmetric", "gptq", 4, 32, true},
};

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

const nlohmann::json& entry_of(const nlohmann::json& all, const std::string& name) {
  for (const auto& [key, value] : all.at("formats").items())
    if (key == name || key.starts_with(name + " (")) return value;
  throw std::out_of_range(name);
}

std::map<std::string, TinyTensor> tensors_of_entry(const nlohmann::json& entry, const std::string& module) {
  const std::map<std::string, std::string> dtypes{
      {"uint32", "U32"}, {"int32", "I32"}, {"int64", "I64"}, {"float16", "F16"}};
  std::map<std::string, TinyTensor> tensors;
  for (const auto& [suffix, value] : entry.at("tensors").items()) {
    const std::string name = module + "." + suffix;
    tensors[name] = {name, dtypes.at(value.at("dtype")), value.at("shape").get<std::vector<std::uint64_t>>(),
                     bytes_of_hex(value.at("hex"))};
  }
  return tensors;
}

std::vector<float> floats_of_hex(const std::string& hex) {
  const std::string bytes = bytes_of_hex(hex);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// q is (32, 64) in this model, k (4, 64): the shapes of the vectors.
std::string module_of(const Vector& vector) {
  const bool tall = vector.format == "gptq" || vector.zero_points;
  return fmt::format("model.layers.0.self_attn.{}_proj", tall ? "q" : "k");
}

// That matrix alone is coded.
std::string recipe_of(const Vector& vector) {
  return fmt::format(
      "{{defaults: {{format: float16}}, layers: [{{match: '{}', format: uniform, bits: {}, group_size: {}{}}}]}}",
      module_of(vector), vector.bits, vector.group, vector.zero_points ? ", zero_point: true" : "");
}

TEST(GoldenVectors, AreReadExactly) {
  NIBBLE_NEEDS_SHARED(kVectors);
  const auto all = nlohmann::json::parse(read_file(shared_path(kVectors)));
  const TempDir dir;
  write_model(dir / "model", narrow_llama_config());
  for (const Vector& vector : kAll) {
    SCOPED_TRACE(vector.name);
    const nlohmann::json& entry = entry_of(all, vector.name);
    quantize(dir / "model", dir / "q", recipe_of(vector), {});
    export_to(vector.format, dir / "q", dir / "out");
    auto tensors = tensors_of(dir / "out");
    for (auto& [name, tensor] : tensors_of_entry(entry, module_of(vector))) {
      ASSERT_TRUE(tensors.contains(name)) << name;
      EXPECT_EQ(tensors.at(name).shape, tensor.shape) << name;
      tensors[name] = tensor;
    }
    replace_tensors(dir / "out", tensors);
    const Matrix<float> values = read_values(vector.format, dir / "out", dir / "q", module_of(vector));
    EXPECT_TRUE(all_near(values.values(), floats_of_hex(entry.at("decoded_float32_hex")), {}));
  }
}

// The matrix of the vector as parts of a quantized checkpoint of ours.
void put_codes(std::map<std::string, TinyTensor>& quantized, const std::map<std::string, TinyTensor>& golden,
               const Vector& vector, const std::string& module, const Matrix<float>& decoded) {
  const std::size_t rows = decoded.rows(), cols = decoded.cols(), group = vector.group == 0 ? cols : vector.group;
  const std::size_t groups = cols / group;
  const bool gptq = vector.format == "gptq";
  const std::string scale_name = module + (vector.format == "mlx" ? ".scales" : gptq ? ".scales" : ".weight_scale");
  const std::string code_name = module + (vector.format == "mlx" ? ".weight" : gptq ? ".qweight" : ".weight_packed");
  TinyTensor &codes = quantized.at(module + ".codes"), &scales = quantized.at(module + ".block_scale");
  const TinyTensor &stream = golden.at(code_name), &golden_scales = golden.at(scale_name);
  codes.bytes.assign(codes.bytes.size(), '\0');
  const std::size_t row_bytes = codes.bytes.size() / rows;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t bit = 0; bit < cols * vector.bits; ++bit) {
      // Rows of words, or columns of them.
      const std::size_t words = stream.shape[1];
      const std::size_t from = gptq ? (bit / 32 * words + i) * 32 + bit % 32 : i * words * 32 + bit;
      if (bits_at(stream.bytes, from, 1) != 0)
        codes.bytes[i * row_bytes + bit / 8] = static_cast<char>(codes.bytes[i * row_bytes + bit / 8] | 1 << (bit % 8));
    }
    for (std::size_t g = 0; g < groups; ++g)
      for (std::size_t byte = 0; byte < 2; ++byte)
        scales.bytes[(i * groups + g) * 2 + byte] =
            golden_scales.bytes[(gptq ? g * rows + i : i * groups + g) * 2 + byte];
  }
  if (!vector.zero_points) return;
  TinyTensor& zeros = quantized.at(module + ".block_zero");
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t g = 0; g < groups; ++g) {
      // zero = code - value / scale, from any input of the group.
      const std::size_t j = g * group;
      const float scale = float_at(scales, i * groups + g);
      const auto code = static_cast<float>(bits_at(codes.bytes, i * row_bytes * 8 + j * vector.bits, vector.bits));
      zeros.bytes[i * groups + g] = static_cast<char>(static_cast<int>(code - decoded(i, j) / scale + 0.5f));
    }
}

TEST(GoldenVectors, ArePackedIntoTheSameBytes) {
  NIBBLE_NEEDS_SHARED(kVectors);
  const auto all = nlohmann::json::parse(read_file(shared_path(kVectors)));
  const TempDir dir;
  write_model(dir / "model", narrow_llama_config());
  for (const Vector& vector : kAll) {
    if (!vector.packs) continue;
    SCOPED_TRACE(vector.name);
    const nlohmann::json& entry = entry_of(all, vector.name);
    const std::string module = module_of(vector);
    const auto golden = tensors_of_entry(entry, module);
    quantize(dir / "model", dir / "q", recipe_of(vector), {});
    const Matrix<float> shape = nibble_values(dir / "q", module);
    Matrix<float> decoded(shape.rows(), shape.cols());
    const auto floats = floats_of_hex(entry.at("decoded_float32_hex"));
    ASSERT_EQ(floats.size(), decoded.size());
    std::copy(floats.begin(), floats.end(), decoded.values().begin());
    auto quantized = tensors_of(dir / "q");
    put_codes(quantized, golden, vector, module, decoded);
    replace_tensors(dir / "q", quantized);
    EXPECT_TRUE(all_near(nibble_values(dir / "q", module).values(), floats, {}));
    export_to(vector.format, dir / "q", dir / "out");
    const auto written = tensors_of(dir / "out");
    for (const auto& [name, tensor] : golden) EXPECT_EQ(written.at(name).bytes, tensor.bytes) << name;
  }
}

}  // namespace
}  // namespace nibble::test
