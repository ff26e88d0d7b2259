// Experts whose calibration has no token, with the settings that ask for statistics of one kind or another.
#include "quant/job/statistics/rare_experts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "calib/stats/stats_writer.h"
#include "core/error.h"
#include "core/random.h"
#include "quant/job/quantize_model.h"
#include "tests/calib/stats/example_stats.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/files.h"
#include "tests/support/layers.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using test::TempDir;
namespace fs = std::filesystem;

constexpr std::string_view kUnseen = "model.layers.0.block_sparse_moe.experts.1.";

bool is_rare(std::string_view module) { return module.starts_with(kUnseen); }

// A Mixtral, one expert of which the calibration has no token of. The text chooses all of them.
class RareExperts : public testing::Test {
 protected:
  void SetUp() override {
    test::tiny_mixtral().write(dir_ / "model");
    auto settings = calib::example_settings();
    settings.model_hash = model::Checkpoint::open(dir_ / "model")->fingerprint();
    calib::StatsWriter writer(dir_ / "calib.h5", settings);
    for (const auto& layer : test::layers_of(test::config_of(dir_ / "model"))) {
      calib::LayerStats stats = calib::example_layer(layer.module, layer.out, layer.in, 1);
      if (is_rare(layer.module)) {
        calib::LayerSums none(layer.module, layer.out, layer.in, calib::kEverything);
        none.samples = stats.samples;
        stats = none.rounded();
      }
      writer.add(stats);
    }
    writer.commit();
  }

  QuantizeResult quantize(const std::string& yaml, bool with_text) {
    std::optional<CalibrationText> text;
    if (with_text) {
      Random random(3);
      text.emplace(CalibrationText{.tokens = {}, .window_tokens = 20, .fingerprint = "text"});
      for (std::size_t i = 0; i < 20 * 64; ++i) text->tokens.push_back(static_cast<TokenId>(random.below(40)));
    }
    return quantize_model({.model = dir_ / "model",
                           .output = dir_ / "out",
                           .recipe = Recipe::parse(yaml, "recipe"),
                           .calibration = {dir_ / "calib.h5"},
                           .text = text,
                           .overwrite = true});
  }
  TempDir dir_;
};

std::vector<std::string> names_of(const std::vector<RareExpert>& experts) {
  std::vector<std::string> names;
  for (const RareExpert& expert : experts)
    if (is_rare(expert.name)) names.push_back(expert.name);
  return names;
}

std::vector<std::string> all_three() {
  return {std::string(kUnseen) + "w1", std::string(kUnseen) + "w3", std::string(kUnseen) + "w2"};
}

TEST_F(RareExperts, AreNamedAndDoWithoutWhateverAsksForStatistics) {
  const std::string budget = "budget: {bits_per_weight: 8, bits: [2, 3], granularity: [channel], estimate: ";
  const std::string sequential[] = {
      "defaults: {bits: 3, granularity: channel, solver: gptq, sequential: true}\n" + budget + "guided-hessian}",
      "defaults: {bits: 3, granularity: channel, shifting: true, sequential: true}\n" + budget + "fisher}",
      "defaults: {bits: 3, outliers_sensitive: 0.01, sequential: true}",
      "defaults: {bits: 3, weighting: fisher, sequential: true}",
  };
  for (const std::string& recipe : sequential)
    EXPECT_THAT(names_of(quantize(recipe, true).rare_experts), testing::UnorderedElementsAreArray(all_three()))
        << recipe;
  // What the text itself gives, it gives of this expert too.
  EXPECT_THAT(names_of(quantize("defaults: {bits: 3, solver: gptq, sequential: true}", true).rare_experts),
              testing::IsEmpty());
}

// A budget compares ways by the file's statistics, which sequential ones need not be in it otherwise.
TEST_F(RareExperts, StatisticsThatABudgetLacksAreAskedFor) {
  const auto collected = calib::StatisticSet{.guided_hessian = true};
  test::write_calibration(dir_ / "calib.h5", dir_ / "model", collected);
  const std::string recipe =
      "defaults: {bits: 3, granularity: channel, solver: gptq, hessian: guided, shifting: true, sequential: true}\n"
      "budget: {bits_per_weight: 8, bits: [2, 3], granularity: [channel]}";
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { quantize(recipe, true); }, "activations", "nibble calibrate"));
}

TEST_F(RareExperts, GetNoBiasThatOnlyTheyWouldShift) {
  const auto result = quantize("defaults: {bits: 3, shifting: true}", false);
  EXPECT_THAT(names_of(result.rare_experts), testing::UnorderedElementsAreArray(all_three()));
  const auto written = model::Checkpoint::open(dir_ / "out");
  std::size_t biases = 0;
  for (const std::string& name : written->tensor_names()) {
    biases += name.ends_with(".bias");
    EXPECT_FALSE(is_rare(name) && name.ends_with(".bias")) << name;
  }
  EXPECT_EQ(biases, 2u * (4 + 4 * 3) - 3);
  for (const TensorResult& tensor : result.tensors) {
    const bool has_bias = !is_rare(tensor.name);
    const std::uint64_t rows = tensor.name.ends_with("w1") || tensor.name.ends_with("w3")           ? 12
                               : tensor.name.ends_with("k_proj") || tensor.name.ends_with("v_proj") ? 8
                                                                                                    : 16;
    // Rows of codes of 3 bits in whole bytes, one palette of 8 float16 values, and the float16 bias.
    const std::uint64_t row_bytes = (tensor.weights / rows * 3 + 7) / 8;
    EXPECT_EQ(tensor.stored_bits, rows * row_bytes * 8 + 8 * 16 + (has_bias ? rows * 16 : 0)) << tensor.name;
  }
}

TEST_F(RareExperts, ChangeNoEstimateOfOthers) {
  const auto result = quantize(
      "defaults: {bits: 3, granularity: channel, solver: coordinate-descent, output_hessian: true}\n"
      "budget: {bits_per_weight: 8, bits: [2, 3], granularity: [channel]}",
      false);
  ASSERT_TRUE(result.budget);
  EXPECT_EQ(result.budget->loss_estimate, "kronecker");
  EXPECT_THAT(names_of(result.rare_experts), testing::UnorderedElementsAreArray(all_three()));
}

}  // namespace
}  // namespace nibble::quant
