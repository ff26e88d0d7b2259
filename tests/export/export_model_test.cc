#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files/output_directory.h"
#include "core/matrix/dtype.h"
#include "core/text/json.h"
#include "export/rotate_checkpoint.h"
#include "model/checkpoint/checkpoint.h"
#include "quant/job/quantize_model.h"
#include "quant/store/load_model.h"
#include "tests/export/directory_support.h"
#include "tests/export/export_support.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/layers.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using test::TempDir;

void quantize(const std::filesystem::path& model, const std::filesystem::path& output, std::string_view yaml) {
  quantize_model(
      {.model = model, .output = output, .recipe = Recipe::parse(yaml, "r"), .overwrite = true, .progress = {}});
}

TEST(Export, GivesAFloatModelWithTheSameLogits) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "gpt2");
  test::tiny_llama().write(dir / "llama");
  for (const auto model : {"gpt2", "llama"})
    for (const auto yaml : {"defaults: {bits: 3}", "defaults: {bits: 2, granularity: channel}",
                            "layers: [{match: 'wte|embed|lm_head', bits: 6}, {match: 'c_attn.v', format: float16}]"}) {
      quantize(dir / model, dir / "q", yaml);
      test::export_dequantized(dir / "q", dir / "f", true);
      const auto checkpoint = model::Checkpoint::open(dir / "f");
      for (const auto& name : checkpoint->tensor_names())
        EXPECT_EQ(checkpoint->tensor(name).dtype, DType::kF16) << name;
      // Palettes and everything else here are float16 values, and the arithmetic is the same: the same bits, but for
      // GPT-2, whose fused and transposed weights take another path through the GEMM (sums of up to 64 products in
      // another order, relative error about 64 * 2^-24 per layer).
      const auto bound = model == std::string("llama") ? test::Bound{} : test::Bound{.abs = 2e-5, .rel = 2e-5};
      EXPECT_TRUE(test::all_near(test::logits_of_model(dir / "f"), test::logits_of_model(dir / "q"), bound))
          << model << " " << yaml;
    }
}

TEST(Export, GivesWhatEveryKindOfQuantizedWeightDecodesTo) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "gpt2");
  test::tiny_llama().write(dir / "llama");
  for (const auto model : {"gpt2", "llama"}) {
    test::write_calibration(dir / "calib.h5", dir / model);
    for (const auto settings :
         {"bits: 4, cluster_dim: 2", "bits: 2, granularity: channel, palette_dtype: int8",
          "bits: 2, window_bits: 6, scaling: std, shifting: true, solver: coordinate-descent, codebook_iterations: 1",
          "bits: 2, scaling: std, sign: flip, shifting: true, solver: gptq, outliers_large: 0.02",
          "format: int4-block, search: error", "format: int4-block, int4_scale: minmax, zero_point: true, solver: gptq",
          "format: uniform, bits: 3, input_scaling: awq", "format: block-palette, palette: fp4, block_scale: e4m3",
          "format: block-palette, bits: 3, group_size: 16, search: error, joint_iterations: 1"}) {
      SCOPED_TRACE(testing::Message() << model << ", " << settings);
      test::quantize(dir / model, dir / "q",
                     fmt::format("{{defaults: {{{}}}, layers: [{{match: down_proj, cluster_dim: 1}}]}}", settings),
                     {dir / "calib.h5"});
      test::export_dequantized(dir / "q", dir / "f", true);
      for (const auto& layer : test::layers_of(test::config_of(dir / model))) {
        std::vector<float> expected;
        const Matrix<float> decoded = test::weight_of(dir / "q", layer);
        for (const float value : decoded.values()) expected.push_back(round_to_f16(value));
        EXPECT_TRUE(test::same_bits(test::weight_of(dir / "f", layer).values(), expected)) << layer.module;
      }
    }
    std::filesystem::remove(dir / "calib.h5");
  }
}

TEST(Export, WritesTheTensorsThatTheModelHad) {
  const TempDir dir;
  test::tiny_gpt2(test::f16_tensor).write(dir / "model");
  test::write_file(dir / "model" / "tokenizer.json", "{}");
  quantize(dir / "model", dir / "q", "layers: [{match: 'h.1.attn.c_attn.k', format: float16}]");
  test::export_dequantized(dir / "q", dir / "f", false);
  const auto before = model::Checkpoint::open(dir / "model"), after = model::Checkpoint::open(dir / "f");
  EXPECT_EQ(before->tensor_names(), after->tensor_names());
  for (const auto& name : before->tensor_names())
    EXPECT_EQ(before->tensor(name).shape, after->tensor(name).shape) << name;
  const auto architecture = nlohmann::json::parse(after->metadata());
  EXPECT_FALSE(architecture.contains("quantization_config"));
  EXPECT_EQ(architecture.at("torch_dtype"), "float16");
  EXPECT_TRUE(std::filesystem::exists(dir / "f" / "tokenizer.json"));
  EXPECT_EQ(load_model(dir / "f").method, "float16");
}

TEST(Export, SaysWhereBiasesWereAdded) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  quantize(dir / "model", dir / "q", "defaults: {bits: 4}");
  // A layer that shifting gave a bias: the others of its kind get zeros, since a model has them all or none.
  const std::string name = "model.layers.0.self_attn.k_proj.bias";
  auto tensors = test::tensors_of(dir / "q");
  tensors[name] = test::f16_tensor(name, {8}, std::vector<float>(8, 0.5f));
  test::replace_tensors(dir / "q", tensors);
  test::export_dequantized(dir / "q", dir / "f", false);
  const auto loaded = load_model(dir / "f");
  EXPECT_TRUE(loaded.architecture.blocks[1].attention.o.biased);
  EXPECT_FALSE(loaded.architecture.blocks[1].mlp->up.biased);
  EXPECT_TRUE(loaded.checkpoint->contains("model.layers.1.self_attn.o_proj.bias"));
  EXPECT_FALSE(loaded.checkpoint->contains("model.layers.1.mlp.up_proj.bias"));
  // A bias of 0 changes no sum.
  EXPECT_TRUE(test::same_bits(test::logits_of_model(dir / "f"), test::logits_of_model(dir / "q")));
}

// The key of glm4_moe speaks of q, k and v alone.
TEST(Export, AddsBiasesWhereTheKeyOfTheFamilySaysSo) {
  const TempDir dir;
  auto config = nlohmann::json::parse(test::llama_config());
  config.update({{"model_type", "glm4_moe"}, {"head_dim", 8}, {"n_routed_experts", 4}, {"num_experts_per_tok", 2}});
  test::write_model(dir / "model", config.dump());
  quantize(dir / "model", dir / "q", "defaults: {bits: 4}");
  const std::string name = "model.layers.0.self_attn.k_proj.bias";
  auto tensors = test::tensors_of(dir / "q");
  const std::size_t width = load_model(dir / "q").architecture.blocks[0].attention.kv_width();
  tensors[name] = test::f16_tensor(name, {width}, std::vector<float>(width, 0.5f));
  test::replace_tensors(dir / "q", tensors);
  test::export_dequantized(dir / "q", dir / "f", false);
  const auto loaded = load_model(dir / "f");
  EXPECT_TRUE(loaded.architecture.blocks[1].attention.v.biased);
  EXPECT_FALSE(loaded.architecture.blocks[1].attention.o.biased);
  EXPECT_TRUE(loaded.checkpoint->contains("model.layers.1.self_attn.v_proj.bias"));
  EXPECT_FALSE(loaded.checkpoint->contains("model.layers.1.self_attn.o_proj.bias"));
  EXPECT_TRUE(test::same_bits(test::logits_of_model(dir / "f"), test::logits_of_model(dir / "q")));
}

TEST(Export, NamesBiasesThatOtherProgramsIgnore) {
  const TempDir dir;
  auto config = nlohmann::json::parse(test::llama_config());
  const auto quantized = [&](const char* family) {
    config["model_type"] = family;
    config["head_dim"] = 8;
    test::write_model(dir / family, config.dump());
    test::write_calibration(dir / "calib.h5", dir / family);
    const auto output = dir / (std::string(family) + "-4-bit");
    test::quantize(dir / family, output, "defaults: {format: int4-block, shifting: true}", {dir / "calib.h5"});
    return output;
  };
  // qwen3 has a key for biases of attention alone: those of gate, up and down of two blocks have none.
  const auto qwen = quantized("qwen3");
  EXPECT_THAT(test::export_dequantized(qwen, dir / "f", true).written.notes,
              testing::ElementsAre(testing::AllOf(
                  testing::HasSubstr("6 layers have a bias"), testing::HasSubstr("'model.layers.0.mlp.gate_proj'"),
                  testing::HasSubstr("in family qwen3 and ignore it"), testing::HasSubstr("shifting: false"))));
  const std::string gate = "mlp.gate_proj";
  for (const auto& [format, first] : {std::pair("mlx", std::string("self_attn.q_proj")),  // it does not read the key
                                      {"compressed-tensors", gate},
                                      {"gptq", gate},
                                      {"awq", gate}})
    EXPECT_TRUE(test::throws_with<InvalidArgument>(
        [&] { test::export_to(format, qwen, dir / "out", {.rest = exporting::Rest::kFloat16}); },
        "'model.layers.0." + first + "' has a bias", "family qwen3", "shifting: false"))
        << format;
  EXPECT_TRUE(test::export_dequantized(quantized("llama"), dir / "f", true).written.notes.empty());
}

// transformers before version 5 refuses names without prefix beside a head.
TEST(Export, NamesTensorsOfGpt2WithTheirPrefixBesideAHead) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  exporting::rotate_checkpoint({.model = dir / "model", .output = dir / "untied"});
  test::export_dequantized(dir / "untied", dir / "f", false, DType::kF32);
  for (const char* const output : {"untied", "f"}) {
    const auto tensors = test::tensors_of(dir / output);
    EXPECT_TRUE(tensors.contains("lm_head.weight"));
    for (const auto& [name, tensor] : tensors)
      EXPECT_TRUE(name.starts_with("transformer.") || name == "lm_head.weight") << name;
  }
  EXPECT_TRUE(test::same_bits(test::logits_of_model(dir / "f"), test::logits_of_model(dir / "untied")));
}

// A killed export of one model is no part of the next one's, whose tokenizer it would be.
TEST(Export, TakesNothingOverFromARunThatWasKilled) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  for (const std::string fingerprint : {"nibble export, dequantized", "nibble rotate"})
    for (const bool rotate : {false, true}) {
      OutputDirectory(dir / "f", true, fingerprint).add_text("tokenizer.json", "{}");
      if (rotate) {
        exporting::rotate_checkpoint({.model = dir / "model", .output = dir / "f", .overwrite = true});
      } else {
        test::export_dequantized(dir / "model", dir / "f", true);
      }
      EXPECT_FALSE(std::filesystem::exists(dir / "f/tokenizer.json")) << fingerprint << rotate;
    }
}

TEST(Export, WritesAFloatModelInTheTypeAskedFor) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");  // float32
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto result = test::export_dequantized(dir / "model", dir / "f", true, dtype);
    EXPECT_EQ(result.coded, 0u);
    EXPECT_EQ(result.read_back.coded_values, 0u);
    EXPECT_EQ(result.bits_per_weight, dtype == DType::kF32 ? 32.0 : 16.0);
    EXPECT_EQ(result.read_back.rounded == 0, dtype == DType::kF32);
    const auto written = model::Checkpoint::open(dir / "f");
    for (const auto& name : written->tensor_names()) EXPECT_EQ(written->tensor(name).dtype, dtype) << name;
    EXPECT_EQ(nlohmann::json::parse(written->metadata()).at("torch_dtype"),
              dtype == DType::kF32 ? "float32" : "bfloat16");
    if (dtype == DType::kF32) {
      EXPECT_TRUE(test::same_bits(test::logits_of_model(dir / "f"), test::logits_of_model(dir / "model")));
    }
  }
}

TEST(Export, RefusesOptionsThatTheFormatDoesNotTake) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  const auto with = [&](exporting::ExportOptions options) {
    return [&, options] {
      exporting::export_checkpoint({.model = dir / "model",
                                    .output = dir / "f",
                                    .exporter = exporting::find_exporter("dequantized"),
                                    .options = options,
                                    .overwrite = false,
                                    .progress = {}});
    };
  };
  EXPECT_TRUE(test::throws_with<InvalidArgument>(with({.rest = {}, .dtype = {}, .layout = "wide", .golden = false}),
                                                 "--layout", "only one"));
  EXPECT_TRUE(
      test::throws_with<InvalidArgument>(with({.rest = {}, .dtype = {}, .layout = {}, .golden = true}), "--golden"));
  EXPECT_TRUE(
      test::throws_with<InvalidArgument>([] { exporting::find_exporter("ggfu"); }, "expected dequantized", "'ggfu'"));
  EXPECT_FALSE(std::filesystem::exists(dir / "f"));
}

TEST(Export, RefusesExistingOutput) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  quantize(dir / "model", dir / "q", "defaults: {bits: 4}");
  test::export_dequantized(dir / "q", dir / "f", false);
  EXPECT_TRUE(
      test::throws_with<InvalidArgument>([&] { test::export_dequantized(dir / "q", dir / "f", false); }, "exists"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { test::export_dequantized(dir / "q", dir / "q", true); },
                                                 "is the model itself"));
}

TEST(Export, RefusesValuesThatFloat16CannotHold) {
  const TempDir dir;
  auto model = test::tiny_gpt2();
  const float large = 1e6f;
  std::memcpy(model.tensor("h.0.mlp.c_fc.weight").bytes.data(), &large, sizeof large);
  model.write(dir / "model");
  quantize(dir / "model", dir / "q", "defaults: {palette_dtype: float32}");
  EXPECT_TRUE(test::throws_with<NumericalError>([&] { test::export_dequantized(dir / "q", dir / "f", false); },
                                                "h.0.mlp.c_fc.weight", "too large for float16"));
  EXPECT_FALSE(std::filesystem::exists(dir / "f"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(model.tensor("h.0.mlp.c_fc.weight").bytes.data(), &nan, sizeof nan);
  model.write(dir / "other");
  EXPECT_TRUE(test::throws_with<NumericalError>([&] { test::export_dequantized(dir / "other", dir / "f", false); },
                                                "h.0.mlp.c_fc.weight", "expected finite weights, got nan at index 0"));
}

}  // namespace
}  // namespace nibble::quant
