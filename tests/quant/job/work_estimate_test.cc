#include "quant/job/work_estimate.h"

#include <gtest/gtest.h>

#include <string>

#include "model/open/open_model.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"

namespace nibble::quant {
namespace {

class WorkEstimateTest : public testing::Test {
 protected:
  void SetUp() override { test::tiny_llama().write(dir_ / "model"); }
  WorkEstimate of(const Recipe& recipe, std::size_t windows = 0) const {
    const auto checkpoint = model::open_checkpoint(dir_ / "model");
    return estimate_work(make_plan(checkpoint, checkpoint->architecture(), recipe), recipe,
                         {.statistics = windows, .all = windows}, {});
  }
  WorkEstimate of(const std::string& yaml, std::size_t windows = 0) const {
    return of(Recipe::parse(yaml, "recipe"), windows);
  }
  test::TempDir dir_;
};

// The order in which presets took longer on trained models (docs/results/evidence/, seconds).
TEST_F(WorkEstimateTest, GrowsWithWhatIsDoneToAWeight) {
  double last = 0.0;
  for (const char* preset :
       {"int4-block", "palette", "iq4_nl", "iq4_nl-solved", "scalar-one-shot", "windowed-one-shot", "best-one-shot"}) {
    const WorkEstimate work = of(Recipe::preset(preset));
    EXPECT_GT(work.thread_seconds, last) << preset;
    EXPECT_EQ(work.window_passes, 0.0);
    last = work.thread_seconds;
  }
}

// Of each weight what is open for it: three widths, but where a rule says one.
TEST_F(WorkEstimateTest, BudgetsMakeEveryWay) {
  const std::string plain = "defaults: {bits: 3}", rule = "layers: [{match: q_proj, bits: 3}]",
                    budget = "budget: {bits_per_weight: 9, bits: [2, 3, 4], granularity: [tensor]}";
  const double once = of(plain).thread_seconds, three = of("{" + plain + ", " + budget + "}").thread_seconds,
               ruled = of("{" + plain + ", " + rule + ", " + budget + "}").thread_seconds;
  EXPECT_TRUE(test::near(three, 3 * once, {.rel = 1e-12}));
  EXPECT_LT(ruled, three);
  EXPECT_GT(ruled, once);
}

TEST_F(WorkEstimateTest, LargePalettesTakeLonger) {
  const auto bits = [&](const char* value) {
    Recipe recipe = Recipe::preset("scalar");
    recipe.apply_set(std::string("bits=") + value);
    return of(recipe).thread_seconds;
  };
  EXPECT_EQ(bits("4"), bits("2"));
  EXPECT_GT(bits("6"), bits("5"));
}

// Twenty roundings to nearest for each weight behind a norm, and the solver with and without.
TEST_F(WorkEstimateTest, ScaledInputsAreSearchedFor) {
  const auto checkpoint = model::open_checkpoint(dir_ / "model");
  double all = 0.0, behind_norms = 0.0;  // weights
  for (const QuantizeItem& item : make_plan(checkpoint, checkpoint->architecture(), Recipe::preset("palette")).items) {
    const auto weights = static_cast<double>(item.source->rows() * item.source->cols());
    const std::string& name = item.identity.name;
    all += weights;
    if (!name.ends_with("o_proj") && !name.ends_with("down_proj")) behind_norms += weights;
  }
  const auto seconds = [&](const std::string& settings) { return of("defaults: {" + settings + "}").thread_seconds; };
  const double nearest = seconds("bits: 3"), gptq = seconds("bits: 3, solver: gptq");
  EXPECT_TRUE(
      test::near(seconds("bits: 3, input_scaling: awq"), nearest * (1.0 + 20.0 * behind_norms / all), {.rel = 1e-12}));
  // One with the solver takes longer than a rounding, for columns of any number, so no share of the whole is exact.
  const double searched = seconds("bits: 3, solver: gptq, input_scaling: awq") - 20.0 * nearest * behind_norms / all;
  EXPECT_GT(searched, gptq * (1.0 + 1.9 * behind_norms / all));
  EXPECT_LT(searched, gptq * (1.0 + 2.1 * behind_norms / all));
}

// With what a calibration holds of it: of linear layers, and of the head where a rule wants it.
TEST_F(WorkEstimateTest, LargestWeightIsThatOfTheLargestWay) {
  const auto bytes = [&](const std::string& yaml, const calib::StatisticSet& statistics) {
    const auto checkpoint = model::open_checkpoint(dir_ / "model");
    const Recipe recipe = Recipe::parse(yaml, "recipe");
    const Plan plan = make_plan(checkpoint, checkpoint->architecture(), recipe);
    return estimate_work(plan, recipe, {}, statistics).largest_weight_bytes;
  };
  const std::string nearest = "defaults: {bits: 3}";
  EXPECT_GT(bytes(nearest, {.fisher = true}), bytes(nearest, {}));
  EXPECT_GT(bytes(nearest, {.hessian = true}), bytes(nearest, {}));
  EXPECT_EQ(bytes(nearest, {.guided_hessian = true}), bytes(nearest, {}));  // which nothing reads
  const std::string base = "defaults: {bits: 2, granularity: tensor", windows = base + ", window_bits: 5}";
  const std::string budget = "budget: {bits_per_weight: 9, bits: [2], granularity: [tensor], window_bits: [0, 5]}";
  EXPECT_EQ(bytes("{" + base + "}, " + budget + "}", {}), bytes(windows, {}));
  EXPECT_GT(bytes(windows, {}), bytes(base + "}", {}));
  // The head, 40 outputs of 16, is the largest here: its own settings ask for statistics, or there are none of it.
  const std::string solved = "{defaults: {format: float16}, layers: [{match: lm_head, format: palette, bits: 3, ";
  EXPECT_GT(bytes(solved + "weighting: fisher}]}", {.fisher = true}), bytes(solved + "weighting: fisher}]}", {}));
  EXPECT_EQ(bytes(solved + "weighting: none}]}", {.fisher = true}), bytes(solved + "weighting: none}]}", {}));
}

TEST_F(WorkEstimateTest, CountsThePassesOfText) {
  EXPECT_EQ(of("defaults: {solver: gptq, sequential: true}", 16).window_passes, 2.5 * 16);
  EXPECT_EQ(of("defaults: {solver: gptq, sequential: true, shifting: true}", 16).window_passes, 3.5 * 16);
  // With drift_correction, what biases need comes with what weights need; but where those of some make up for nothing.
  const std::string corrected = "defaults: {solver: gptq, sequential: true, shifting: true, drift_correction: 1}";
  EXPECT_EQ(of(corrected, 16).window_passes, 5.0 * 16);
  EXPECT_EQ(of("{" + corrected + ", layers: [{match: down_proj, drift_correction: 0}]}", 16).window_passes, 6.0 * 16);
  // The float model once, three measurements of 8, and 2 epochs of four passes for each of 56; of all the text, or its
  // first.
  const double passes = 64 + 3 * 8 + 2 * 4 * 56;
  EXPECT_EQ(of("{defaults: {bits: 3}, tuning: {epochs: 2}}", 64).window_passes, passes);
  EXPECT_EQ(of("{defaults: {bits: 3}, tuning: {epochs: 2, held_out: 8}}", 64).window_passes, passes);
  EXPECT_EQ(of("{defaults: {bits: 3}, tuning: {epochs: 2, windows: 56, held_out: 8}}", 512).window_passes, passes);
  // Fewer than eight windows are all trained on and measured; the text's own next tokens need no float model.
  EXPECT_EQ(of("{defaults: {bits: 3}, tuning: {epochs: 1}}", 6).window_passes, 6 + 2 * 6 + 4 * 6);
  EXPECT_EQ(of("{defaults: {bits: 3}, tuning: {epochs: 1, loss: next-token}}", 6).window_passes, 2 * 6 + 4 * 6);
}

}  // namespace
}  // namespace nibble::quant
