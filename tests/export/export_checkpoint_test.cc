#include "export/export_checkpoint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "core/error.h"
#include "core/text/json.h"
#include "quant/recipe/recipe.h"
#include "tests/export/directory_support.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

// What `nibble quantize --for` lets pass is exported, and what the export refuses is refused before quantizing, in the
// same words.

namespace nibble::test {
namespace {

void require_exportable(std::string_view format, const std::filesystem::path& model, std::string_view recipe) {
  exporting::require_exportable(exporting::find_exporter(format), model, quant::Recipe::parse(recipe, "recipe"));
}

// Both refuse what `recipe` makes of dir / "model", with all of `words`.
template <class... Words>
void expect_refused(std::string_view format, const TempDir& dir, std::string_view recipe, const Words&... words) {
  SCOPED_TRACE(std::string(format) + " " + std::string(recipe));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { require_exportable(format, dir / "model", recipe); }, words...));
  quantize(dir / "model", dir / "q", recipe, {dir / "calib.h5"});
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { export_to(format, dir / "q", dir / "out"); }, words...));
}

void expect_exported(std::string_view format, const TempDir& dir, std::string_view recipe) {
  SCOPED_TRACE(std::string(format) + " " + std::string(recipe));
  EXPECT_NO_THROW(require_exportable(format, dir / "model", recipe));
  quantize(dir / "model", dir / "q", recipe, {dir / "calib.h5"});
  EXPECT_NO_THROW(export_to(format, dir / "q", dir / "out"));
}

void write_calibrated_model(const TempDir& dir, const nlohmann::json& config) {
  write_model(dir / "model", config.dump());
  write_calibration(dir / "calib.h5", dir / "model");
}

TEST(RequireExportable, RefusesATiedEmbeddingWhereLinearLayersAloneAreCoded) {
  const TempDir dir;
  auto config = nlohmann::json::parse(llama_config());
  config["tie_word_embeddings"] = true;
  write_calibrated_model(dir, config);
  const auto recipe = [](const char* format) {
    return std::string("{defaults: {format: int4-block}, layers: [{match: '[kv]_proj', format: float16}, ") +
           "{match: embed_tokens, format: " + format + "}]}";
  };
  for (const char* const program : {"gptq", "awq"}) {
    expect_refused(program, dir, recipe("int4-block"), "'model.embed_tokens'", "linear layers");
    expect_exported(program, dir, recipe("float16"));
  }
  expect_exported("mlx", dir, recipe("int4-block"));
}

TEST(RequireExportable, RefusesAStackOfExpertsOfWhichOneStaysFloat) {
  const TempDir dir;
  write_calibrated_model(dir, nlohmann::json::parse(R"(
      {"model_type": "mixtral", "vocab_size": 48, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
       "num_attention_heads": 4, "num_key_value_heads": 4, "num_local_experts": 3, "num_experts_per_tok": 2,
       "max_position_embeddings": 64, "hidden_act": "silu", "tie_word_embeddings": false})"));
  const auto recipe = [](const char* match) {
    return std::string("{defaults: {format: int4-block}, layers: [{match: '") + match + "', format: float16}]}";
  };
  expect_refused("mlx", dir, recipe("layers.1.*experts.2.w3"), "'model.layers.1.block_sparse_moe.experts.0.w3'",
                 "one tensor", "switch_mlp.up_proj", "stored differently", "2 matrices in all");
  expect_exported("mlx", dir, recipe("layers.1.*experts.*w3"));
}

TEST(RequireExportable, RefusesBiasesOfShiftingThatTheProgramDoesNotAdd) {
  const TempDir dir;
  auto config = nlohmann::json::parse(llama_config());
  config["model_type"] = "qwen3";
  write_calibrated_model(dir, config);
  const auto recipe = [](const char* match) {
    return std::string("{defaults: {format: int4-block}, layers: [{match: '[kv]_proj', format: float16}, {match: '") +
           match + "', format: int4-block, shifting: true}]}";
  };
  for (const char* const program : {"mlx", "compressed-tensors", "gptq", "awq"})
    expect_refused(program, dir, recipe("gate_proj"), "'model.layers.0.mlp.gate_proj' has a bias", "family qwen3",
                   "shifting: false");
  // qwen3 has a key for those of attention, which mlx-lm does not read.
  expect_refused("mlx", dir, recipe("q_proj"), "'model.layers.0.self_attn.q_proj' has a bias");
  expect_exported("compressed-tensors", dir, recipe("q_proj"));
  EXPECT_NO_THROW(require_exportable("gguf", dir / "model", recipe("q_proj")));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { require_exportable("gguf", dir / "model", recipe("o_proj")); },
                                           "o_proj' has a bias, which llama.cpp does not add there"));
}

TEST(RequireExportable, RefusesWidthsOfABudgetOnlyWhereTheyMeetInOneTensor) {
  const TempDir dir;
  write_calibrated_model(dir, nlohmann::json::parse(llama_config()));
  constexpr std::string_view kRecipe =
      "{defaults: {format: uniform, group_size: 32}, budget: {bits: [4, 8], bits_per_weight: 6.0}, "
      "layers: [{match: '[kv]_proj', format: float16}]}";
  EXPECT_NO_THROW(require_exportable("compressed-tensors", dir / "model", kRecipe));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { require_exportable("awq", dir / "model", kRecipe); }, "not of 8"));
}

TEST(RequireExportable, TakesWhatARuleSaysForWhatABudgetLeavesOpen) {
  const TempDir dir;
  write_calibrated_model(dir, nlohmann::json::parse(llama_config()));
  constexpr std::string_view kRecipe =
      "{{defaults: {{format: uniform, group_size: 32}}, budget: {{bits: [4, 8], bits_per_weight: 6.0}}, "
      "layers: [{{match: '{}', bits: 4}}]}}";
  EXPECT_NO_THROW(require_exportable("awq", dir / "model", fmt::format(kRecipe, "_proj")));
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] { require_exportable("awq", dir / "model", fmt::format(kRecipe, "[qkvo]_proj")); }, "not of 8"));
}

}  // namespace
}  // namespace nibble::test
