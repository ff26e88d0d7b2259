#include "eval/sweep/sweep_plan.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "eval/sweep/run_sweep.h"
#include "eval/sweep/sweep_cost.h"
#include "eval/sweep/sweep_file.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

using test::throws_with;

// A little Llama, six windows of 16 tokens to calibrate on and four of 8 to evaluate.
struct SweepPlanTest : testing::Test {
  test::TempDir temp;

  void SetUp() override {
    test::tiny_llama().write(temp / "model");
    write_tokens("calibration.u16", 96);
    write_tokens("text.u16", 32);
  }
  void write_tokens(const std::string& name, unsigned count) const {
    std::string bytes;
    for (unsigned i = 0; i < count; ++i) bytes += {static_cast<char>(i * i % 37), '\0'};
    test::write_file(temp / name, bytes);
  }
  std::string recipe(const std::string& yaml) const {
    test::write_file(temp / "recipe.yaml", yaml);
    return "{name: r, recipe: " + (temp / "recipe.yaml").string() + "}";
  }
  std::string yaml(const std::string& cells, bool calibrated = true) const {
    return "models: [" + (temp / "model").string() + "]\n" +
           (calibrated
                ? "calibration: {tokens: " + (temp / "calibration.u16").string() + ", length: 16, collect: none}\n"
                : "") +
           "evaluations: [{name: e, tokens: " + (temp / "text.u16").string() + ", protocol: blocks, context: 8}]\n" +
           cells;
  }
  SweepPlan plan(const std::string& cells, bool calibrated = true) const {
    return plan_sweep(parse_sweep(yaml(cells, calibrated), "s"));
  }
};

struct Need {
  std::string name, recipe, collected;
  bool text;
};

class WhatRecipesNeed : public SweepPlanTest, public testing::WithParamInterface<Need> {};

TEST_P(WhatRecipesNeed, IsWhatTheSweepCollectsAndItIsEnough) {
  const std::string cells = "list: [" + recipe(GetParam().recipe) + "]";
  SweepPlan planned = plan(cells);
  ASSERT_EQ(planned.jobs.size(), 1u);
  EXPECT_EQ(calib::to_text(planned.jobs[0].statistics), GetParam().collected);
  EXPECT_EQ(planned.jobs[0].needs_text, GetParam().text);
  ASSERT_EQ(planned.calibrations.size(), GetParam().collected.empty() && !GetParam().text ? 0u : 1u);
  estimate(planned, std::uint64_t{1} << 30);
  std::vector<SweepRecord> records;
  SweepOptions options;
  options.output = temp / "results";
  options.finished = [&](const SweepRecord& record) { records.push_back(record); };
  run_sweep(planned, options);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_FALSE(records[0].error) << records[0].error->message;
  if (!planned.calibrations.empty()) {
    EXPECT_TRUE(throws_with<InvalidArgument>([&] { plan(cells, false); }, "add a `calibration` section"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, WhatRecipesNeed,
    testing::Values(
        Need{"Plain", "defaults: {bits: 3}", "", false},
        Need{"Fisher", "defaults: {weighting: fisher, shifting: true}", "activations,fisher", false},
        Need{"Awq", "defaults: {format: uniform, bits: 3, input_scaling: awq}", "activations,hessian", false},
        Need{"Tuning", "{defaults: {bits: 3}, tuning: {epochs: 1}}", "", true},
        Need{"Sequential", "defaults: {bits: 3, solver: gptq, sequential: true}", "", true},
        Need{"SequentialFisher", "defaults: {bits: 3, weighting: fisher, solver: gptq, sequential: true}", "fisher",
             true},
        Need{"BudgetOfRounding", "{defaults: {bits: 3}, budget: {bits_per_weight: 7, bits: [2, 3]}}", "fisher", false},
        Need{"BudgetOfFeedback", "{defaults: {solver: gptq}, budget: {bits_per_weight: 7, bits: [2, 3]}}",
             "hessian,guided-hessian", false},
        Need{"BudgetAsTold",
             "{defaults: {bits: 3}, budget: {bits_per_weight: 7, bits: [2, 3], estimate: fisher-hessian}}",
             "activations,fisher,hessian", false},
        Need{"Head", "{defaults: {bits: 3}, layers: [{match: lm_head, bits: 4, solver: gptq, hessian: guided}]}",
             "guided-hessian", false},
        Need{"HeadBesideSequential",
             "{defaults: {bits: 3, solver: gptq, sequential: true}, layers: [{match: lm_head, bits: 4}]}", "hessian",
             true},
        Need{"OutputHessian", "defaults: {bits: 3, solver: coordinate-descent, output_hessian: true}",
             "hessian,output-hessian", false},
        Need{"SequentialOutputHessian",
             "defaults: {bits: 3, solver: coordinate-descent, output_hessian: true, sequential: true}",
             "output-hessian", true},
        Need{"HeadBesideOutputHessian",
             "{defaults: {bits: 3, solver: coordinate-descent, output_hessian: true}, layers: [{match: lm_head, bits: "
             "4, "
             "output_hessian: false}]}",
             "hessian,output-hessian", false}),
    [](const auto& need) { return need.param.name; });

TEST_F(SweepPlanTest, ACellIsNamedByWhatDecidesItsResultAndNothingElse) {
  const SweepPlan one = plan("list: [{bits: 3}, float]"), other = plan("list: [float, {name: three, bits: 3}]");
  ASSERT_EQ(one.cells, 2u);
  EXPECT_EQ(one.jobs[0].cells[0].record.id, other.jobs[1].cells[0].record.id);
  EXPECT_EQ(one.jobs[1].cells[0].record.id, other.jobs[0].cells[0].record.id);
  EXPECT_NE(one.jobs[0].cells[0].record.id, one.jobs[1].cells[0].record.id);
  write_tokens("text.u16", 34);
  EXPECT_NE(plan("list: [float]").jobs[0].cells[0].record.id, one.jobs[1].cells[0].record.id);
}

TEST_F(SweepPlanTest, EachSizeOfTheCalibrationIsACalibrationOfItsOwn) {
  const std::string cells = "list: [{bits: 3, weighting: fisher}]";
  std::string several = yaml(cells);
  several.replace(several.find("length: 16"), 10, "length: 16, samples: [2, 5]");
  const SweepPlan planned = plan_sweep(parse_sweep(several, "s"));
  ASSERT_EQ(planned.calibrations.size(), 2u);
  EXPECT_EQ(planned.calibrations[0].windows.samples, 2u);
  EXPECT_EQ(planned.calibrations[1].windows.samples, 5u);
  ASSERT_EQ(planned.jobs.size(), 2u);
  const SweepRecord &two = planned.jobs[0].cells[0].record, &five = planned.jobs[1].cells[0].record;
  EXPECT_NE(two.id, five.id);
  EXPECT_EQ(fact(five.labels, "recipe"), "bits=3 weighting=fisher, 5 windows");
  EXPECT_EQ(plan_repetition(five).jobs.at(0).cells.at(0).record.id, five.id);
}

TEST_F(SweepPlanTest, EachDrawOfTheCalibrationIsACalibrationOfItsOwn) {
  const std::string demo = test::source_path("datasets/demo").string();
  const SweepPlan planned = plan_sweep(parse_sweep(
      "models: [" + demo + "/gpt2-demo]\ncalibration: {text: " + demo +
          "/calibration.txt, length: 16, samples: 2, seed: [0, 7]}\nevaluations: [{name: e, tokens: " +
          (temp / "text.u16").string() + ", protocol: blocks, context: 8}]\nlist: [{bits: 3, weighting: fisher}]",
      "s"));
  ASSERT_EQ(planned.calibrations.size(), 2u);
  EXPECT_NE(planned.calibrations[0].settings.windows_hash, planned.calibrations[1].settings.windows_hash);
  const SweepRecord &first = planned.jobs.at(0).cells[0].record, &second = planned.jobs.at(1).cells[0].record;
  EXPECT_NE(first.id, second.id);
  EXPECT_EQ(fact(second.labels, "recipe"), "bits=3 weighting=fisher, seed 7");
  EXPECT_EQ(plan_repetition(second).jobs.at(0).cells.at(0).record.id, second.id);
}

TEST_F(SweepPlanTest, CellsThatSayTheSameAreDoneOnce) {
  const SweepPlan planned = plan("list: [{name: a, bits: 3}, {name: b, bits: 3}]");
  EXPECT_EQ(planned.cells, 1u);
  EXPECT_EQ(planned.repeated, 1u);
}

TEST_F(SweepPlanTest, ARepetitionIsTheSameCellOrSaysWhatHasChanged) {
  const SweepRecord record = plan("list: [{bits: 3, weighting: fisher}]").jobs[0].cells[0].record;
  EXPECT_EQ(plan_repetition(record).jobs.at(0).cells.at(0).record.id, record.id);
  write_tokens("text.u16", 40);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { plan_repetition(record); }, "the evaluation is another one now"));
}

// One calibration for both; each cell is named by what it looks at itself.
TEST_F(SweepPlanTest, CellsWithAndWithoutAnOutputHessianShareACalibration) {
  const std::string solver = "bits: 3, solver: coordinate-descent, hessian: guided, output_hessian: ";
  const SweepPlan both = plan("grid: {" + solver + "[false, true]}"), without = plan("list: [{" + solver + "false}]"),
                  with = plan("list: [{" + solver + "true}]");
  ASSERT_EQ(both.calibrations.size(), 1u);
  EXPECT_EQ(calib::to_text(both.calibrations[0].settings.collected), "guided-hessian,output-hessian");
  ASSERT_EQ(both.jobs.size(), 2u);
  EXPECT_EQ(calib::to_text(both.jobs[0].statistics), "guided-hessian");
  EXPECT_EQ(calib::to_text(both.jobs[1].statistics), "guided-hessian,output-hessian");
  EXPECT_EQ(both.jobs[0].cells[0].record.id, without.jobs[0].cells[0].record.id);
  EXPECT_EQ(both.jobs[1].cells[0].record.id, with.jobs[0].cells[0].record.id);
  EXPECT_NE(both.jobs[0].cells[0].record.id, both.jobs[1].cells[0].record.id);
  EXPECT_NE(without.calibrations[0].key, with.calibrations[0].key) << "other statistics are another cache entry";
  EXPECT_EQ(both.calibrations[0].key, with.calibrations[0].key);
}

TEST_F(SweepPlanTest, AnOutputHessianOfTheHeadIsRefusedBeforeAnythingIsCollected) {
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] {
        plan("list: [" +
             recipe("{defaults: {bits: 3, solver: coordinate-descent, output_hessian: true}, layers: [{match: lm_head, "
                    "bits: 4}]}") +
             "]");
      },
      "lm_head", "output_hessian: false"));
}

TEST_F(SweepPlanTest, ARuleThatMatchesNothingIsAWarning) {
  const SweepPlan planned = plan("list: [" + recipe("layers: [{match: nowhere, bits: 2}]") + "]");
  ASSERT_EQ(planned.warnings.size(), 1u);
  EXPECT_NE(planned.warnings[0].find("rule 'nowhere' matches no tensor of 'model'"), std::string::npos);
}

}  // namespace
}  // namespace nibble::eval
