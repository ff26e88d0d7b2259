// A budget's probes on little models: what they measure, what it changes, that kills change nothing, what is refused.
#include "quant/job/budget/budget_probe.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "quant/job/quantize_model.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using test::TempDir;
namespace fs = std::filesystem;

constexpr std::size_t kLength = 20;

CalibrationText text(std::size_t windows = 3) { return test::random_text(5, windows, kLength); }

class BudgetProbeTest : public testing::Test {
 protected:
  void write(const test::TinyModel& model) {
    model.write(dir_ / "model");
    test::write_calibration(dir_ / "calib.h5", dir_ / "model");
  }
  QuantizeResult quantize(const std::string& yaml, const std::string& output = "out",
                          std::optional<CalibrationText> windows = text(), const ProgressSink& progress = {}) {
    return quantize_model({.model = dir_ / "model",
                           .output = dir_ / output,
                           .recipe = Recipe::parse(yaml, "recipe"),
                           .calibration = {dir_ / "calib.h5"},
                           .text = std::move(windows),
                           .overwrite = true,
                           .progress = progress});
  }
  TempDir dir_;
};

const std::string kDefaults = "{scaling: std, shifting: true, weighting: fisher}";
const std::string kWays = "bits_per_weight: 6, bits: [2, 3, 4], granularity: [tensor]";

TEST_F(BudgetProbeTest, MeasureEachTensorAloneWithItsBias) {
  for (const bool gpt2 : {false, true}) {
    SCOPED_TRACE(gpt2 ? "GPT-2: q, k and v have one bias" : "Llama: biases come to be");
    write(gpt2 ? test::tiny_gpt2() : test::tiny_llama());
    const auto result = quantize("defaults: " + kDefaults + "\nbudget: {" + kWays + ", probe_windows: 2}");
    ASSERT_TRUE(result.budget);
    EXPECT_EQ(result.budget->probe_windows, 2u);
    for (const BudgetTensor& tensor : result.budget->tensors) {
      SCOPED_TRACE(tensor.name);
      ASSERT_TRUE(tensor.probe);
      const std::string bits = tensor.probe->layout.substr(std::string("palette ").size(), 1);
      // Weights of these models are float16 numbers: format float16 is the float model.
      quantize("defaults: {format: float16}\nlayers: [{match: '" + tensor.name + "', format: palette, bits: " + bits +
                   ", scaling: std, shifting: true, weighting: fisher}]",
               "alone", std::nullopt);
      const double expected =
          test::divergence_between(dir_ / "model", dir_ / "alone", text(), std::vector<std::size_t>{0, 1});
      // Logits are float sums, 1e-6 of them off; KL, about 1e-3 here, feels an error of logits by its own root.
      EXPECT_TRUE(test::near(tensor.probe->divergence, expected, {.abs = 1e-9, .rel = 1e-3}));
      EXPECT_GT(expected, 1e-7) << "else nothing is compared";
    }
    fs::remove_all(dir_ / "model");
  }
}

TEST_F(BudgetProbeTest, MultiplyEveryEstimateOfTheirTensorAndAreStored) {
  write(test::tiny_llama());
  const auto plain = quantize("defaults: " + kDefaults + "\nbudget: {" + kWays + "}", "plain", std::nullopt);
  const auto probed = quantize("defaults: " + kDefaults + "\nbudget: {" + kWays + ", probe_windows: 3}");
  bool changed = false;
  for (std::size_t t = 0; t < probed.budget->tensors.size(); ++t) {
    const BudgetTensor &before = plain.budget->tensors[t], &after = probed.budget->tensors[t];
    ASSERT_TRUE(after.probe);
    EXPECT_FALSE(before.probe);
    const double factor = probe_factor(after.probe->divergence, after.probe->predicted_loss);
    double nearest = INFINITY;
    std::string layout;
    for (std::size_t c = 0; c < after.candidates.size(); ++c) {
      EXPECT_EQ(after.candidates[c].predicted_loss, factor * before.candidates[c].predicted_loss);
      changed = changed || after.candidates[c].chosen != before.candidates[c].chosen;
      const double distance = std::abs(after.candidates[c].bits_per_weight - 6.0);
      if (distance < nearest) nearest = distance, layout = after.candidates[c].layout;
      if (after.candidates[c].layout == after.probe->layout) {
        EXPECT_EQ(after.probe->predicted_loss, before.candidates[c].predicted_loss);
      }
    }
    EXPECT_EQ(after.probe->layout, layout);
  }
  EXPECT_TRUE(changed) << "of made-up statistics, estimates order tensors at random";
  const std::string json = test::read_file(dir_ / "out" / "quantization.json");
  for (const char* key : {"\"probe_windows\": 3", "\"probe\"", "\"divergence\""})
    EXPECT_NE(json.find(key), std::string::npos) << key;
  EXPECT_EQ(test::read_file(dir_ / "plain" / "quantization.json").find("probe"), std::string::npos);
}

TEST(ProbeFactor, IsTheRatioWithinBounds) {
  EXPECT_EQ(probe_factor(3.0, 2.0), 1.5);
  EXPECT_EQ(probe_factor(1.0, 1e-9), 16.0);
  EXPECT_EQ(probe_factor(1e-9, 1.0), 0.0625);
  for (const double nothing : {0.0, -1.0, static_cast<double>(NAN)}) {
    EXPECT_EQ(probe_factor(nothing, 1.0), 1.0);
    EXPECT_EQ(probe_factor(1.0, nothing), 1.0);
  }
  EXPECT_EQ(probe_factor(1.0, INFINITY), 1.0);
}

TEST_F(BudgetProbeTest, GiveTheSameBytesAfterAKillAndWithAnyThreads) {
  write(test::tiny_gpt2());
  const std::string recipe = "defaults: " + kDefaults + "\nbudget: {" + kWays + ", probe_windows: 3}";
  quantize(recipe, "expected");
  const auto expected = test::files_without_times(dir_ / "expected");
  struct Stop {};
  const auto probing = [](const ProgressUpdate& at) { return at.stage.starts_with("probing"); };
  EXPECT_THROW(quantize(recipe, "out", text(),
                        [&](const ProgressUpdate& at) {
                          if (probing(at) && at.done > 0.5 * at.total) throw Stop();
                        }),
               Stop);
  std::vector<double> seen;
  set_thread_count(1);
  quantize(recipe, "out", text(), [&](const ProgressUpdate& at) {
    if (probing(at)) seen.push_back(at.done / at.total);
  });
  set_thread_count(0);
  EXPECT_EQ(test::files_without_times(dir_ / "out"), expected);
  ASSERT_GE(seen.size(), 2u);
  EXPECT_EQ(seen[1], 1.0 / 3.0) << "one of three windows was finished, and is not measured again";
  // What an earlier run left damaged is measured anew.
  EXPECT_THROW(quantize(recipe, "out", text(),
                        [&](const ProgressUpdate& at) {
                          if (probing(at) && at.done > 0.5 * at.total) throw Stop();
                        }),
               Stop);
  test::write_file(dir_ / "out.partial" / "scratch" / "probes.json", "{\"windows\": 2, \"divergence_");
  quantize(recipe);
  EXPECT_EQ(test::files_without_times(dir_ / "out"), expected);
}

TEST_F(BudgetProbeTest, RefuseWhatTheyCannotMeasureOnBeforeAnyWork) {
  write(test::tiny_llama());
  const auto refused = [&](const std::string& budget, std::optional<CalibrationText> windows, std::string_view words) {
    return test::throws_with<InvalidArgument>(
        [&] { quantize("budget: {" + kWays + budget + "}", "out", std::move(windows)); }, words);
  };
  EXPECT_TRUE(refused(", probe_windows: 2", std::nullopt, "give --text FILE"));
  EXPECT_TRUE(refused(", probe_windows: 4", text(), "probe_windows: 4 of a text of 3 windows"));
  EXPECT_TRUE(refused("", text(), "which it does not have"));
  EXPECT_TRUE(refused(", probe_windows: -1", text(), "probe_windows"));
  EXPECT_TRUE(refused(", probe_window: 1", text(), "did you mean 'probe_windows'"));
  auto unknown = text();
  unknown.tokens[5] = 40;
  EXPECT_TRUE(refused(", probe_windows: 2", unknown, "token 40"));
  EXPECT_FALSE(fs::exists(dir_ / "out.partial"));
}

TEST(BudgetProbe, IsAKeyThatIsPrintedOnlyWhereItIsAskedFor) {
  const std::string plain = Recipe::parse("budget: {bits_per_weight: 4, bits: [2, 4]}", "recipe").canonical_text();
  EXPECT_EQ(plain.find("probe"), std::string::npos);
  Recipe recipe = Recipe::parse(plain, "recipe");
  recipe.apply_set("budget.probe_windows", "16");
  EXPECT_NE(recipe.canonical_text().find("probe_windows: 16"), std::string::npos);
  EXPECT_EQ(Recipe::parse(recipe.canonical_text(), "again").canonical_text(), recipe.canonical_text());
}

}  // namespace
}  // namespace nibble::quant
