#include "quant/store/load_model.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/error.h"
#include "core/text/json.h"
#include "quant/job/quantize_model.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using Json = nlohmann::ordered_json;
using test::TempDir;
using test::TinyTensor;

std::string bytes_of(const model::TensorView& tensor) {
  return {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()};
}

// A quantized checkpoint taken apart, so that a test can spoil one thing and put it together again.
struct TakenApart {
  Json architecture;
  std::vector<TinyTensor> tensors;

  explicit TakenApart(const std::filesystem::path& directory) {
    const auto checkpoint = model::Checkpoint::open(directory);
    architecture = Json::parse(checkpoint->metadata());
    for (const auto& name : checkpoint->tensor_names()) {
      const auto view = checkpoint->tensor(name);
      tensors.push_back({name, std::string(dtype_name(view.dtype)), view.shape, bytes_of(view)});
    }
  }
  TinyTensor& tensor(std::string_view name) {
    for (auto& tensor : tensors)
      if (tensor.name == name) return tensor;
    throw std::invalid_argument(std::string(name));
  }
  Json& quantization() { return architecture["quantization_config"]; }
  Json& entry(const std::string& name) { return quantization()["tensors"][name]; }
  void remove(std::string_view name) {
    std::erase_if(tensors, [&](const auto& tensor) { return tensor.name == name; });
  }
};

struct Spoiled {
  const char* name;
  std::function<void(TakenApart&)> spoil;
  std::vector<std::string_view> message;
};

TEST(HostileQuantizedCheckpoint, IsRefusedWithTheReason) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  quantize_model({.model = dir / "model",
                  .output = dir / "out",
                  .recipe = Recipe::parse("{defaults: {bits: 3}, layers: [{match: c_proj, format: int4-block}]}", "r"),
                  .overwrite = false,
                  .progress = {}});
  const TakenApart whole(dir / "out");
  const std::string fc = "h.0.mlp.c_fc", proj = "h.1.mlp.c_proj";
  const std::vector<Spoiled> cases{
      {"another method", [](auto& m) { m.quantization()["quant_method"] = "gptq"; }, {"quant_method", "\"gptq\""}},
      {"no method", [](auto& m) { m.quantization().erase("quant_method"); }, {"'quant_method' is missing"}},
      {"a later version", [](auto& m) { m.quantization()["version"] = 2; }, {"version", "reads version 1, got 2"}},
      {"no object", [](auto& m) { m.quantization() = 3; }, {"quantization_config", "expected a JSON object"}},
      {"an unknown key", [](auto& m) { m.quantization()["tensor"] = 1; }, {"unknown key 'tensor'", "'tensors'"}},
      {"no table", [](auto& m) { m.quantization().erase("tensors"); }, {"'tensors' is missing"}},
      {"a table of another kind", [](auto& m) { m.quantization()["tensors"] = Json::array(); }, {"tensors"}},
      {"widened floats that are a number", [](auto& m) { m.quantization()["widened"] = 3; }, {"widened", "an object"}},
      {"a float widened from nothing",
       [](auto& m) { m.quantization()["widened"]["h.0.ln_1.weight"] = "I8"; },
       {"widened", "h.0.ln_1.weight", "expected F16 or BF16"}},
      {"an unknown format", [&](auto& m) { m.entry(fc)["format"] = "float4"; }, {fc, "format", "\"float4\""}},
      {"a format that is no text", [&](auto& m) { m.entry(fc)["format"] = 4; }, {fc, "format"}},
      {"negative bits", [&](auto& m) { m.entry(fc)["bits"] = -3; }, {fc, "bits", "got -3"}},
      {"many bits", [&](auto& m) { m.entry(fc)["bits"] = 1u << 31; }, {fc, "bits", "from 1 to 8"}},
      {"other bits than stored", [&](auto& m) { m.entry(fc)["bits"] = 4; }, {"h.0.mlp.c_fc.codes", "(64, 8)"}},
      {"another shape than config.json says",
       [&](auto& m) {
         m.entry(fc)["shape"] = {64, 14};  // 14 codes of 3 bits fill 6 bytes, as 16 do
       },
       {fc, "expected a (64, 16) weight", "got (64, 14)"}},
      {"an empty shape",
       [&](auto& m) {
         m.entry(fc)["shape"] = {0, 16};
       },
       {fc, "shape", "got 0"}},
      {"a shape of one number", [&](auto& m) { m.entry(fc)["shape"] = {64}; }, {fc, "[out, in]"}},
      {"a huge shape",
       [&](auto& m) {
         m.entry(fc)["shape"] = {1ull << 60, 16};
       },
       {fc, "shape"}},
      {"vectors on blocks", [&](auto& m) { m.entry(proj)["cluster_dim"] = 2; }, {proj, "cluster_dim"}},
      {"windows on blocks",
       [&](auto& m) { m.entry(proj)["window_bits"] = 6; },
       {proj, "windowed codes need one palette"}},
      {"super-blocks of palettes",
       [&](auto& m) { m.entry(fc)["super_block"] = 256; },
       {fc, "super_block", "expected a multiple of group_size above it"}},
      {"super-blocks of half a block",
       [&](auto& m) { m.entry(proj)["super_block"] = 24; },
       {proj, "super_block", "got 24 with group_size"}},
      {"windows of eleven bits", [&](auto& m) { m.entry(fc)["window_bits"] = 11; }, {fc, "window_bits", "11"}},
      {"windows of two bits",
       [&](auto& m) { m.entry(fc)["window_bits"] = 2; },
       {"h.0.mlp.c_fc", "window_bits", "got 2"}},
      {"windows where there are codes", [&](auto& m) { m.entry(fc)["window_bits"] = 6; }, {"h.0.mlp.c_fc"}},
      {"another group size", [&](auto& m) { m.entry(fc)["group_size"] = 1; }, {"h.0.mlp.c_fc.palette", "(64, 8)"}},
      {"a key too many in an entry", [&](auto& m) { m.entry(fc)["offset"] = 1; }, {fc, "unknown key 'offset'"}},
      {"an entry without tensors", [&](auto& m) { m.entry("h.9.mlp") = m.entry(fc); }, {"h.9.mlp.codes: missing"}},
      {"codes without an entry",
       [&](auto& m) { m.quantization()["tensors"].erase(fc); },
       {"h.0.mlp.c_fc.codes", "no entry"}},
      {"missing codes", [](auto& m) { m.remove("h.0.mlp.c_fc.codes"); }, {"h.0.mlp.c_fc.codes: missing"}},
      {"a missing palette", [](auto& m) { m.remove("h.0.mlp.c_fc.palette"); }, {"h.0.mlp.c_fc.palette: missing"}},
      {"a weight twice",
       [](auto& m) {
         m.tensors.push_back({"h.0.mlp.c_fc.weight", "F16", {1}, std::string(2, '\0')});
       },
       {"h.0.mlp.c_fc", "both quantized and as float"}},
      {"an unknown part",
       [](auto& m) {
         m.tensors.push_back({"h.0.mlp.c_fc.shift", "F16", {1}, std::string(2, '\0')});
       },
       {"h.0.mlp.c_fc.shift", "unknown part"}},
      {"a palette with infinity",
       [](auto& m) { m.tensor("h.0.mlp.c_fc.palette").bytes.replace(14, 2, "\x00\x7c", 2); },
       {"h.0.mlp.c_fc.palette", "finite", "index 7"}},
      {"NaN among the scales",
       [](auto& m) { m.tensor("h.1.mlp.c_proj.block_scale").bytes.replace(0, 2, "\x01\x7e", 2); },
       {"h.1.mlp.c_proj.block_scale", "finite", "index 0"}},
      {"one of q, k, v missing",
       [](auto& m) {
         m.remove("h.0.attn.c_attn.k.codes"), m.remove("h.0.attn.c_attn.k.palette");
         m.quantization()["tensors"].erase("h.0.attn.c_attn.k");
       },
       {"h.0.attn.c_attn.k.weight"}},
      {"a bias of another size",
       [](auto& m) {
         m.tensor("h.0.mlp.c_fc.bias").shape = {8, 8};
       },
       {"h.0.mlp.c_fc.bias"}},
  };
  test::write_checkpoint(dir / "spoiled", whole.architecture.dump(), whole.tensors);
  EXPECT_NO_THROW(load_model(dir / "spoiled")) << "put together unspoiled";
  for (const auto& spoiled : cases) {
    auto model = whole;
    spoiled.spoil(model);
    test::write_checkpoint(dir / "spoiled", model.architecture.dump(), model.tensors);
    for (const auto words : spoiled.message)
      EXPECT_TRUE(test::throws_with<FormatError>([&] { load_model(dir / "spoiled"); }, words)) << spoiled.name;
  }
}

TEST(BitsPerWeight, AreCountedNotBelieved) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  const auto result =
      quantize_model({.model = dir / "model", .output = dir / "out", .recipe = {}, .overwrite = false, .progress = {}});
  TakenApart model(dir / "out");
  model.quantization()["bits_per_weight"] = 0.5;
  test::write_checkpoint(dir / "liar", model.architecture.dump(), model.tensors);
  EXPECT_EQ(load_model(dir / "liar").bits_per_weight, result.bits_per_weight);
}

TEST(BitsPerWeight, IncludeBiasesThatTheModelDidNotHave) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  const auto result =
      quantize_model({.model = dir / "model", .output = dir / "out", .recipe = {}, .overwrite = false, .progress = {}});
  TakenApart model(dir / "out");
  model.tensors.push_back({"model.layers.0.self_attn.k_proj.bias", "F16", {8}, std::string(16, '\0')});
  test::write_checkpoint(dir / "shifted", model.architecture.dump(), model.tensors);
  const double weights = 2.0 * (16 * 16 * 2 + 8 * 16 * 2 + 3 * 27 * 16);
  EXPECT_TRUE(test::near(load_model(dir / "shifted").bits_per_weight, result.bits_per_weight + 8 * 16 / weights,
                         {.rel = 1e-15}));
}

TEST(BitsPerWeight, OfFloatModelsAreThoseOfTheirType) {
  const TempDir dir;
  test::tiny_gpt2(test::f16_tensor, "transformer.").write(dir / "f16");
  test::tiny_llama().write(dir / "f32");
  test::tiny_llama(test::bf16_tensor).write(dir / "bf16");
  EXPECT_EQ(load_model(dir / "f16").bits_per_weight, 16.0);
  EXPECT_EQ(load_model(dir / "f16").model_bits_per_weight, 16.0);
  EXPECT_EQ(load_model(dir / "f16").method, "float16");
  EXPECT_EQ(load_model(dir / "f32").bits_per_weight, 32.0);
  EXPECT_EQ(load_model(dir / "f32").method, "float32");
  EXPECT_EQ(load_model(dir / "bf16").method, "bfloat16");
}

TEST(LoadModel, NamesTheMethod) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  for (const auto& [section, method] : {std::pair{"{bits: 3, granularity: channel}", "palette 3-bit channel"},
                                        {"{granularity: channel-group}", "palette 4-bit channel-group 8"},
                                        {"{format: int4-block}", "int4-block 32"},
                                        {"{format: uniform, bits: 5}", "uniform 5-bit row"},
                                        {"{format: uniform, group_size: 64}", "uniform 4-bit block 64"},
                                        {"{format: float16}", "float16"}}) {
    quantize_model({.model = dir / "model",
                    .output = dir / "out",
                    .recipe = Recipe::parse("defaults: " + std::string(section), "r"),
                    .overwrite = true,
                    .progress = {}});
    EXPECT_EQ(load_model(dir / "out").method, method);
  }
}

}  // namespace
}  // namespace nibble::quant
