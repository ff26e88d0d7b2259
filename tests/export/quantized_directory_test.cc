#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "core/text/json.h"
#include "tests/export/directory_support.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

// What the formats that are directories in the shape of Hugging Face have in common: every storage that they say they
// hold is there exactly, and every other is refused with a reason.

namespace nibble::test {
namespace {

constexpr const char* kFormats[] = {"mlx", "compressed-tensors", "gptq", "awq"};
constexpr const char* kModules[] = {"model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.o_proj",
                                    "model.layers.0.mlp.gate_proj", "model.layers.1.mlp.down_proj"};

struct Case {
  std::string settings;  // of a recipe
  unsigned bits;
  std::string holders;  // formats that hold it
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const char* zeros : {"", ", int4_scale: minmax, zero_point: true"}) {
    cases.push_back({fmt::format("format: int4-block, group_size: 32{}", zeros), 4, "mlx compressed-tensors gptq awq"});
    cases.push_back({fmt::format("format: int4-block, group_size: 16{}", zeros), 4, "compressed-tensors gptq awq"});
  }
  for (const unsigned bits : {2u, 3u, 4u, 5u, 6u, 7u, 8u})
    for (const char* zeros : {"", ", zero_point: true"})
      for (const unsigned group : {0u, 32u}) {
        std::string holders = "compressed-tensors";
        if (bits != 7) holders += " mlx";
        if (bits == 2 || bits == 3 || bits == 4 || bits == 8) holders += " gptq";
        if (bits == 4) holders += " awq";
        cases.push_back(
            {fmt::format("format: uniform, bits: {}, group_size: {}{}", bits, group, zeros), bits, holders});
      }
  cases.push_back({"format: palette, bits: 4", 4, ""});
  cases.push_back({"format: palette, bits: 4, granularity: channel", 4, ""});
  return cases;
}

// k and v have too few outputs for words of every width: they stay float.
std::string recipe_of(const std::string& settings) {
  return fmt::format("{{defaults: {{{}}}, layers: [{{match: '[kv]_proj', format: float16}}]}}", settings);
}

TEST(QuantizedDirectories, HoldEveryStorageExactlyOrRefuseIt) {
  const TempDir dir;
  write_model(dir / "model", llama_config());
  for (const Case& one : all_cases()) {
    SCOPED_TRACE(one.settings);
    quantize(dir / "model", dir / "q", recipe_of(one.settings), {});
    for (const std::string format : kFormats) {
      SCOPED_TRACE(format);
      if (one.holders.find(format) == std::string::npos) {
        EXPECT_TRUE(throws_with<InvalidArgument>([&] { export_to(format, dir / "q", dir / "out"); },
                                                 format + ": cannot hold", "layers.0.self_attn.q_proj",
                                                 "--rest float16"));
        continue;
      }
      const exporting::ExportResult result = export_to(format, dir / "q", dir / "out");
      EXPECT_EQ(result.coded, 2u * 5u);
      EXPECT_EQ(result.read_back.rounded, 0u) << "the model's floats are float16 already";
      const auto tensors = tensors_of(dir / "out");
      const bool second = one.settings.find("zero_point") != std::string::npos;
      for (const std::string module : kModules) {
        const Matrix<float> expected = nibble_values(dir / "q", module);
        // (u - z) s of 11 + 8 bits is exact in float however it is put together.
        EXPECT_TRUE(all_near(plain_values(format, tensors, module, one.bits, second).values(), expected.values(), {}))
            << module;
      }
    }
  }
}

TEST(QuantizedDirectories, SayHowManyBitsTheyTake) {
  const TempDir dir;
  write_model(dir / "model", llama_config());
  quantize(dir / "model", dir / "q", "defaults: {format: int4-block, group_size: 32}", {});
  // Codes 4 bits; scales 16 for 32; MLX's biases as many again; GPTQ and AWQ zero points 4 for 32; g_idx 32 an input;
  // compressed-tensors a shape of two times 64 bits for each matrix.
  const double weights = 2.0 * (64 * 64 + 2 * 8 * 64 + 64 * 64 + 3 * 96 * 64);
  const double inputs = 2.0 * (5 * 64 + 64 + 96), matrices = 2.0 * 7;
  EXPECT_TRUE(near(export_to("mlx", dir / "q", dir / "out").bits_per_weight, 5.0, {}));
  EXPECT_TRUE(near(export_to("awq", dir / "q", dir / "out").bits_per_weight, 4.625, {}));
  EXPECT_TRUE(
      near(export_to("gptq", dir / "q", dir / "out").bits_per_weight, 4.625 + 32 * inputs / weights, {.rel = 1e-12}));
  EXPECT_TRUE(near(export_to("compressed-tensors", dir / "q", dir / "out").bits_per_weight,
                   4.5 + 128 * matrices / weights, {.rel = 1e-12}));
}

TEST(QuantizedDirectories, WriteFloatsInTheTypeAskedFor) {
  const TempDir dir;
  write_model(dir / "model", llama_config());
  quantize(dir / "model", dir / "q", recipe_of("format: int4-block"), {});
  for (const std::string format : kFormats) {
    SCOPED_TRACE(format);
    export_to(format, dir / "q", dir / "out");
    EXPECT_EQ(tensors_of(dir / "out").at("model.norm.weight").dtype, "F16");
    EXPECT_EQ(config_json_of(dir / "out").at("torch_dtype"), "float16");
    export_to(format, dir / "q", dir / "out", {.dtype = DType::kF32});
    EXPECT_EQ(tensors_of(dir / "out").at("lm_head.weight").dtype, "F32");
    EXPECT_EQ(config_json_of(dir / "out").at("torch_dtype"), "float32");
  }
}

TEST(QuantizedDirectories, WriteWhatTheyCannotHoldAsFloatsIfAsked) {
  const TempDir dir;
  write_model(dir / "model", llama_config());
  quantize(dir / "model", dir / "q",
           "{defaults: {format: int4-block}, layers: [{match: down_proj, format: palette, bits: 4}]}", {});
  for (const std::string format : kFormats) {
    SCOPED_TRACE(format);
    EXPECT_TRUE(throws_with<InvalidArgument>([&] { export_to(format, dir / "q", dir / "out"); },
                                             "'model.layers.0.mlp.down_proj'", "palette 4-bit tensor", "no palettes",
                                             "format: int4-block", "2 matrices in all"));
    const auto result = export_to(format, dir / "q", dir / "out", {.rest = exporting::Rest::kFloat16});
    EXPECT_EQ(result.as_floats.size(), 2u);
    EXPECT_EQ(tensors_of(dir / "out").at("model.layers.1.mlp.down_proj.weight").dtype, "F16");
  }
}

TEST(QuantizedDirectories, TakeTokenizersAlong) {
  const TempDir dir;
  write_model(dir / "model", llama_config());
  write_file(dir / "model" / "tokenizer.json", "{}");
  quantize(dir / "model", dir / "q", "defaults: {format: int4-block}", {});
  for (const std::string format : kFormats) {
    export_to(format, dir / "q", dir / "out");
    EXPECT_EQ(read_file(dir / "out" / "tokenizer.json"), "{}") << format;
  }
}

// ---- readers

struct Harm {
  std::string word;  // in the message
  std::function<void(std::map<std::string, TinyTensor>& tensors, nlohmann::json& config)> act;
};

TEST(QuantizedDirectoryReaders, RefuseWhatIsNotAsItShouldBe) {
  const TempDir dir;
  write_model(dir / "model", llama_config());
  quantize(dir / "model", dir / "q", recipe_of("format: int4-block, int4_scale: minmax, zero_point: true"), {});
  const std::string q = "model.layers.0.self_attn.q_proj";
  const auto drop = [&](std::string suffix) { return [=](auto& tensors, auto&) { tensors.erase(q + suffix); }; };
  const auto as = [&](std::string suffix, std::string dtype) {
    return [=](auto& tensors, auto&) { tensors.at(q + suffix).dtype = dtype; };
  };
  const auto flatten = [&](std::string suffix) {
    return [=](auto& tensors, auto&) {
      TinyTensor& t = tensors.at(q + suffix);
      t.shape = {t.shape[0] * t.shape[1]};
    };
  };
  const auto set = [&](std::vector<std::string> path, nlohmann::json value) {
    return [=](auto&, nlohmann::json& config) {
      nlohmann::json* at = &config;
      for (const std::string& key : path) at = &(*at)[key];
      *at = value;
    };
  };
  const std::string c = "quantization_config";
  const std::map<std::string, std::vector<Harm>> all{
      {"mlx",
       {{"missing tensor '" + q + ".biases'", drop(".biases")},
        {"expected F16, got I32", as(".scales", "I32")},
        {"expected U32, got F32", as(".weight", "F32")},
        {"expected shape", flatten(".weight")},
        {"quantization", set({"quantization"}, nullptr)},
        {"bits", set({"quantization", "bits"}, 99)},
        {"expected shape", set({"quantization", "bits"}, 8)},
        {"group_size", set({"quantization", "group_size"}, 0)},
        {"no multiple", set({"quantization", "group_size"}, 48)},
        {"mode", set({"quantization", "mode"}, "mxfp4")},
        {"missing tensor 'model.norm.weight'", [](auto& t, auto&) { t.erase("model.norm.weight"); }},
        {"missing tensor 'lm_head.weight'", [](auto& t, auto&) { t.erase("lm_head.weight"); }}}},
      {"compressed-tensors",
       {{"missing tensor", drop(".weight_scale")},
        {"missing tensor", drop(".weight_zero_point")},
        {"expected I32, got U32", as(".weight_packed", "U32")},
        {"expected shape", flatten(".weight_scale")},
        {"expected (64, 64)", [&](auto& t, auto&) { t.at(q + ".weight_shape").bytes[0] = 1; }},
        {"quant_method", set({c, "quant_method"}, "other")},
        {"format", set({c, "format"}, "marlin-24")},
        {"none has", set({c, "config_groups"}, nlohmann::json::object())},
        {"strategy", set({c, "config_groups", "group_0", "weights", "strategy"}, "tensor")},
        {"num_bits", set({c, "config_groups", "group_0", "weights", "num_bits"}, 0)},
        {"group_size", set({c, "config_groups", "group_0", "weights", "group_size"}, 0)}}},
      {"gptq",
       {{"missing tensor", drop(".qzeros")},
        {"missing tensor", drop(".g_idx")},
        {"expected F16, got BF16", as(".scales", "BF16")},
        {"expected shape", flatten(".qweight")},
        {"is in group 9 of 2", [&](auto& t, auto&) { t.at(q + ".g_idx").bytes[4] = 9; }},
        {"is in group -1 of 2", [&](auto& t, auto&) { t.at(q + ".g_idx").bytes.replace(8, 4, "\xff\xff\xff\xff"); }},
        {"checkpoint_format", set({c, "checkpoint_format"}, "marlin")},
        {"bits", set({c, "bits"}, 1)},
        {"group_size", set({c, "group_size"}, 0)},
        {"group_size", set({c, "group_size"}, "all")}}},
      {"awq",
       {{"missing tensor", drop(".scales")},
        {"expected I32, got U32", as(".qzeros", "U32")},
        {"expected shape", flatten(".qweight")},
        {"version", set({c, "version"}, "gemv")},
        {"bits", set({c, "bits"}, 3)},
        {"group_size", set({c, "group_size"}, -2)},
        {"does not consist", set({c, "group_size"}, 48)}}}};
  for (const auto& [format, harms] : all) {
    export_to(format, dir / "q", dir / "out");
    const auto tensors = tensors_of(dir / "out");
    const nlohmann::json config = config_json_of(dir / "out");
    for (const Harm& harm : harms) {
      auto harmed = tensors;
      nlohmann::json other = config;
      harm.act(harmed, other);
      replace_config(dir / "out", other);
      replace_tensors(dir / "out", harmed);
      EXPECT_TRUE(throws_with<FormatError>(
          [&] {
            read_values(format, dir / "out", dir / "q", q);
            read_values(format, dir / "out", dir / "q", "lm_head");
            const exporting::ExportModel model(dir / "q");
            exporting::find_exporter(format).read(dir / "out", model)->vector(*model.architecture().final_norm->gain);
          },
          harm.word))
          << format << ", " << harm.word;
    }
  }
}

TEST(QuantizedDirectoryReaders, RefuseTruncatedFiles) {
  const TempDir dir;
  write_model(dir / "model", llama_config());
  quantize(dir / "model", dir / "q", recipe_of("format: int4-block"), {});
  for (const std::string format : kFormats) {
    export_to(format, dir / "q", dir / "out");
    const std::string bytes = read_file(dir / "out" / "model.safetensors");
    for (const std::size_t size : {std::size_t{0}, std::size_t{7}, bytes.size() / 2, bytes.size() - 1}) {
      write_file(dir / "out" / "model.safetensors", bytes.substr(0, size));
      const auto module = "model.layers.0.self_attn.q_proj";
      EXPECT_TRUE(
          throws_with<FormatError>([&] { read_values(format, dir / "out", dir / "q", module); }, "model.safetensors"))
          << format << " " << size;
    }
  }
}

}  // namespace
}  // namespace nibble::test
