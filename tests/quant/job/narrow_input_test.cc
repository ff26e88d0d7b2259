#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/error.h"
#include "core/text/json.h"
#include "eval/inspect/inspect_model.h"
#include "model/checkpoint/checkpoint.h"
#include "quant/job/quantize_model.h"
#include "quant/store/load_model.h"
#include "tests/export/export_support.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/golden_families.h"
#include "tests/support/throws.h"

// A checkpoint of narrow floats and its twin, which stores the same values as bfloat16, are the same model to
// everything that reads weights.

namespace nibble::quant {
namespace {

using test::TempDir;
using test::TinyModel;
using test::TinyTensor;

constexpr double kFp4[] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};

struct Twins {
  TinyModel narrow, floats;
};

std::size_t count_of(const TinyTensor& tensor) {
  std::size_t count = 1;
  for (const auto extent : tensor.shape) count *= extent;
  return count;
}

std::vector<float> values_of(const TinyTensor& tensor, DType dtype) {
  std::vector<float> values(count_of(tensor));
  convert_to_f32(dtype, reinterpret_cast<const std::byte*>(tensor.bytes.data()), values.size(), values.data());
  return values;
}

std::string with_quantization(const std::string& config, const std::string& quantization) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(config);
  json["quantization_config"] = nlohmann::ordered_json::parse(quantization);
  return json.dump();
}

// The stack (slices, in, out) as MXFP4, rows of outputs, and in its own shape what that stands for.
void add_mxfp4(const TinyTensor& tensor, const std::vector<float>& values, Twins& twins) {
  const std::size_t slices = tensor.shape[0], in = tensor.shape[1], out = tensor.shape[2], groups = in / 32;
  std::string blocks, scales;
  std::vector<float> decoded(values.size());
  for (std::size_t s = 0; s < slices; ++s)
    for (std::size_t r = 0; r < out; ++r)
      for (std::size_t g = 0; g < groups; ++g) {
        const auto at = [&](std::size_t k) { return (s * in + g * 32 + k) * out + r; };
        double largest = 0.0;
        for (std::size_t k = 0; k < 32; ++k) largest = std::max(largest, std::abs(static_cast<double>(values[at(k)])));
        const int exponent = largest > 0.0 ? std::ilogb(largest) - 2 : 0;
        scales.push_back(static_cast<char>(exponent + 127));
        unsigned low = 0;
        for (std::size_t k = 0; k < 32; ++k) {
          const double value = std::ldexp(values[at(k)], -exponent);
          unsigned best = 0;
          for (unsigned code = 1; code < 8; ++code)
            if (std::abs(kFp4[code] - std::abs(value)) < std::abs(kFp4[best] - std::abs(value))) best = code;
          decoded[at(k)] = static_cast<float>(std::ldexp(value < 0 ? -kFp4[best] : kFp4[best], exponent));
          const unsigned code = value < 0 ? best + 8 : best;
          if (k % 2 == 0) low = code;
          if (k % 2 == 1) blocks.push_back(static_cast<char>(low | code << 4));
        }
      }
  twins.narrow.tensors.push_back({tensor.name + "_blocks", "U8", {slices, out, groups, 16}, blocks});
  twins.narrow.tensors.push_back({tensor.name + "_scales", "U8", {slices, out, groups}, scales});
  twins.floats.tensors.push_back(test::bf16_tensor(tensor.name, tensor.shape, decoded));
}

// The golden model of gpt_oss with experts as it is published.
Twins gpt_oss_twins() {
  const auto directory = test::golden_family("gpt_oss");
  const auto golden = model::Checkpoint::open(directory);
  Twins twins;
  twins.floats.config_json = test::read_file(directory / "config.json");
  twins.narrow.config_json = with_quantization(
      twins.floats.config_json, R"({"quant_method": "mxfp4", "modules_to_not_convert": ["model.embed_tokens"]})");
  for (const std::string& name : golden->tensor_names()) {
    const auto view = golden->tensor(name);
    TinyTensor tensor{name, std::string(dtype_name(view.dtype)), view.shape,
                      std::string(reinterpret_cast<const char*>(view.data.data()), view.data.size())};
    if (name.ends_with("_proj") && tensor.shape.size() == 3) {
      add_mxfp4(tensor, values_of(tensor, view.dtype), twins);
    } else {
      twins.narrow.tensors.push_back(tensor);
      twins.floats.tensors.push_back(std::move(tensor));
    }
  }
  return twins;
}

unsigned nearest_e4m3(double value) {
  const auto error = [&](unsigned code) {
    return std::abs(static_cast<double>(f8_e4m3_to_f32(static_cast<std::uint8_t>(code))) - value);
  };
  unsigned best = 0;
  for (unsigned code = 0; code < 256; ++code)
    if (error(code) < error(best)) best = code;
  return best;
}

// Every matrix as E4M3 with scales of blocks (8, 12): powers of two, so that bfloat16 holds the products.
Twins llama_twins() {
  Twins twins;
  const TinyModel tiny = test::tiny_llama();
  twins.floats.config_json = tiny.config_json;
  twins.narrow.config_json =
      with_quantization(tiny.config_json, R"({"quant_method": "fp8", "weight_block_size": [8, 12]})");
  for (const TinyTensor& tensor : tiny.tensors) {
    if (tensor.shape.size() != 2) {
      twins.narrow.tensors.push_back(tensor);
      twins.floats.tensors.push_back(tensor);
      continue;
    }
    const std::size_t rows = tensor.shape[0], cols = tensor.shape[1], across = (cols + 11) / 12;
    std::vector<float> values = values_of(tensor, DType::kF32), scales((rows + 7) / 8 * across);
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = std::ldexp(1.0f, static_cast<int>(i % 5) - 8);
    std::string codes;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float scale = scales[i / cols / 8 * across + i % cols / 12];
      const unsigned code = nearest_e4m3(static_cast<double>(values[i]) / static_cast<double>(scale));
      codes.push_back(static_cast<char>(code));
      values[i] = f8_e4m3_to_f32(static_cast<std::uint8_t>(code)) * scale;
    }
    twins.narrow.tensors.push_back({tensor.name, "F8_E4M3", tensor.shape, codes});
    twins.narrow.tensors.push_back(test::f32_tensor(tensor.name + "_scale_inv", {(rows + 7) / 8, across}, scales));
    twins.floats.tensors.push_back(test::bf16_tensor(tensor.name, tensor.shape, values));
  }
  const std::vector<float> one{1.0f};
  twins.narrow.tensors.push_back(test::f32_tensor("model.layers.0.mlp.up_proj.input_scale", {1}, one));
  return twins;
}

QuantizeResult quantize_as(const std::filesystem::path& model, const std::filesystem::path& output,
                           std::string_view yaml) {
  return quantize_model(
      {.model = model, .output = output, .recipe = Recipe::parse(yaml, "recipe"), .overwrite = false, .progress = {}});
}

// All weights the same bytes, and config.json the same but for the checkpoint's fingerprint.
void expect_same_output(const std::filesystem::path& a, const std::filesystem::path& b) {
  EXPECT_EQ(test::read_file(a / "model.safetensors"), test::read_file(b / "model.safetensors"));
  auto config_a = nlohmann::json::parse(test::read_file(a / "config.json"));
  auto config_b = nlohmann::json::parse(test::read_file(b / "config.json"));
  config_a["quantization_config"].erase("fingerprints");
  config_b["quantization_config"].erase("fingerprints");
  EXPECT_EQ(config_a, config_b);
}

class NarrowInput : public testing::Test {
 protected:
  void write(const Twins& twins) {
    twins.narrow.write(dir_ / "narrow");
    twins.floats.write(dir_ / "floats");
  }
  TempDir dir_;
};

// About a hundred roundings of the logits' own size: the twin's experts lie in the file as columns, which the matrix
// library sums in another order.
constexpr double kLogits = 2e-5;

TEST_F(NarrowInput, OfGptOssHasTheWeightsAndTheLogitsOfItsTwin) {
  NIBBLE_NEEDS_SHARED("golden/families/gpt_oss");
  write(gpt_oss_twins());
  const auto narrow = model::Checkpoint::open(dir_ / "narrow"), floats = model::Checkpoint::open(dir_ / "floats");
  const auto weights = make_weight_provider(narrow), expected = make_weight_provider(floats);
  for (const model::Parameter* parameter : model::matrices(narrow->architecture())) {
    std::vector<float> values(parameter->weights()), twin(parameter->weights());
    weights->matrix(*parameter)->decode_rows(0, parameter->out, values.data());
    expected->matrix(*parameter)->decode_rows(0, parameter->out, twin.data());
    EXPECT_TRUE(test::same_bits(values, twin)) << parameter->module;
  }
  EXPECT_TRUE(test::relative_error_within(test::logits_of_model(dir_ / "narrow"),
                                          test::logits_of_model(dir_ / "floats"), kLogits));
}

TEST_F(NarrowInput, OfLlamaGivesTheLogitsOfItsTwin) {
  write(llama_twins());
  EXPECT_TRUE(test::same_bits(test::logits_of_model(dir_ / "narrow"), test::logits_of_model(dir_ / "floats")));
}

TEST_F(NarrowInput, OfGptOssIsQuantizedAsItsTwin) {
  NIBBLE_NEEDS_SHARED("golden/families/gpt_oss");
  write(gpt_oss_twins());
  // One stack stays whole as float16, half of another does, the rest is quantized; down_proj alone is left of block 2.
  const char* yaml = R"(
defaults: {format: int4-block}
layers:
  - {match: 'layers\.1\.mlp\.experts\.down_proj', format: float16}
  - {match: 'layers\.2\.mlp\.experts\.gate_up_proj.*gate', format: float16}
)";
  quantize_as(dir_ / "narrow", dir_ / "a", yaml);
  quantize_as(dir_ / "floats", dir_ / "b", yaml);
  expect_same_output(dir_ / "a", dir_ / "b");
  const auto out = model::Checkpoint::open(dir_ / "a");
  EXPECT_EQ(out->tensor("model.layers.1.mlp.experts.down_proj").dtype, DType::kF16);
  for (const std::string& name : out->tensor_names())
    EXPECT_FALSE(name.ends_with("_blocks") || name.ends_with("_scales")) << name;
}

TEST_F(NarrowInput, OfLlamaIsQuantizedAsItsTwinAndTheRestIsDecoded) {
  write(llama_twins());
  const char* yaml = R"(
defaults: {format: int4-block}
layers:
  - {match: 'layers\.1\.self_attn\.q_proj', format: float16}
  - {match: 'lm_head', format: float16}
)";
  quantize_as(dir_ / "narrow", dir_ / "a", yaml);
  quantize_as(dir_ / "floats", dir_ / "b", yaml);
  expect_same_output(dir_ / "a", dir_ / "b");
  const auto out = model::Checkpoint::open(dir_ / "a");
  EXPECT_EQ(out->tensor("model.embed_tokens.weight").dtype, DType::kBF16);
  EXPECT_EQ(out->tensor("lm_head.weight").dtype, DType::kF16);
  for (const std::string& name : out->tensor_names()) EXPECT_EQ(name.find("scale_inv"), std::string::npos) << name;
  EXPECT_FALSE(out->contains("model.layers.0.mlp.up_proj.input_scale"));
}

TEST_F(NarrowInput, IsCountedByWhatIsStored) {
  NIBBLE_NEEDS_SHARED("golden/families/gpt_oss");
  write(gpt_oss_twins());
  const auto narrow = eval::describe_model(dir_ / "narrow"), floats = eval::describe_model(dir_ / "floats");
  EXPECT_EQ(narrow.parameters, floats.parameters);
  EXPECT_EQ(narrow.bytes, model::Checkpoint::open(dir_ / "narrow")->tensor_bytes());
  EXPECT_EQ(narrow.method, "mixed");  // attention is bfloat16
  ASSERT_EQ(narrow.tensors.size(), floats.tensors.size());
  double bits = 0.0, weights = 0.0;
  std::map<std::string, const eval::TensorDescription*> by_name;
  for (const auto& tensor : floats.tensors) by_name[tensor.name] = &tensor;
  for (const auto& tensor : narrow.tensors) {
    SCOPED_TRACE(tensor.name);
    ASSERT_TRUE(by_name.contains(tensor.name));
    EXPECT_EQ(tensor.weights, by_name[tensor.name]->weights);
    EXPECT_EQ(tensor.block_linear, by_name[tensor.name]->block_linear);
    const bool mxfp4 = tensor.storage == "mxfp4";
    EXPECT_EQ(mxfp4, tensor.name.ends_with("experts.down_proj") || tensor.name.ends_with("experts.gate_up_proj"));
    EXPECT_TRUE(test::near(tensor.bits_per_weight, mxfp4 ? 4.25 : 16.0, {.abs = 0.0, .rel = 1e-15}));
    EXPECT_TRUE(test::near(tensor.values.deviation, by_name[tensor.name]->values.deviation,
                           {.abs = 0.0, .rel = 1e-12}));  // sums over other pieces
    if (!tensor.block_linear) continue;
    bits += static_cast<double>(tensor.weights) * tensor.bits_per_weight;
    weights += static_cast<double>(tensor.weights);
  }
  EXPECT_TRUE(test::near(narrow.bits_per_weight, bits / weights, {.abs = 0.0, .rel = 1e-12}));
}

TEST_F(NarrowInput, IsExportedAsFloat16) {
  write(llama_twins());
  test::export_dequantized(dir_ / "narrow", dir_ / "out", false);
  EXPECT_TRUE(test::same_bits(test::logits_of_model(dir_ / "out"), test::logits_of_model(dir_ / "floats")));
  EXPECT_FALSE(nlohmann::json::parse(test::read_file(dir_ / "out" / "config.json")).contains("quantization_config"));
}

TEST_F(NarrowInput, WithNanCodesIsRefusedByTensorAndIndex) {
  for (const char* name : {"model.layers.0.mlp.up_proj.weight", "lm_head.weight"}) {
    Twins twins = llama_twins();
    twins.narrow.tensor(name).bytes[5] = '\x7F';
    write(twins);
    EXPECT_TRUE(test::throws_with<NumericalError>(
        [&] { quantize_as(dir_ / "narrow", dir_ / "out", "defaults: {format: int4-block}"); },
        std::string(name).substr(0, 7)))
        << name;
  }
}

TEST_F(NarrowInput, OfAnUnknownMethodIsRefusedByName) {
  Twins twins = llama_twins();
  twins.narrow.config_json = with_quantization(twins.floats.config_json, R"({"quant_method": "gptq", "bits": 4})");
  write(twins);
  EXPECT_TRUE(test::throws_with<FormatError>(
      [&] { quantize_as(dir_ / "narrow", dir_ / "out", "defaults: {format: int4-block}"); }, "quant_method", "\"gptq\"",
      "quantize the float checkpoint"));
  EXPECT_TRUE(test::throws_with<FormatError>([&] { load_model(dir_ / "narrow"); }, "\"gptq\""));
}

}  // namespace
}  // namespace nibble::quant
