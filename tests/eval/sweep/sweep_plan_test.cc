#include "eval/sweep/sweep_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "core/machine/program_identity.h"
#include "core/machine/thread_pool.h"
#include "core/text/json.h"
#include "eval/sweep/run_sweep.h"
#include "eval/sweep/sweep_cost.h"
#include "eval/sweep/sweep_file.h"
#include "eval/sweep/sweep_inputs.h"
#include "model/synthesize/synthesize_model.h"
#include "quant/job/quantize_model.h"
#include "quant/job/statistics/weight_statistics.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
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
  std::filesystem::path quantized(const std::string& name, unsigned bits, const std::string& from = "model") const {
    quant::QuantizeOptions options;
    options.model = temp / from;
    options.output = temp / name;
    options.overwrite = true;
    options.recipe = quant::Recipe::parse(fmt::format("defaults: {{bits: {}}}", bits), "r");
    quant::quantize_model(options);
    return options.output;
  }
  void set_config(const std::string& name, const nlohmann::ordered_json& keys) const {
    const std::filesystem::path file = temp / name / "config.json";
    auto config = nlohmann::ordered_json::parse(test::read_file(file));
    config.update(keys);
    test::write_file(file, config.dump());
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

// Of every file, so that each counts and one that is missing is missed.
TEST_F(SweepPlanTest, MaxTokensAreOfEachFileOfAnEvaluation) {
  write_tokens("long.u16", 64);
  const auto tokens_of = [&](const std::string& files) {
    std::string with = yaml("list: [float]");
    const std::string one = (temp / "text.u16").string();
    with.replace(with.find(one), one.size(), files + ", max_tokens: 24");
    return plan_sweep(parse_sweep(with, "s")).jobs.at(0).cells.at(0).tokens;
  };
  const std::string text = (temp / "text.u16").string(), longer = (temp / "long.u16").string();
  const auto both = tokens_of("[" + longer + ", " + text + "]");
  ASSERT_EQ(both->tokens.size(), 48u);
  EXPECT_EQ(both->text_ends, (std::vector<std::size_t>{24, 48}));
  const auto one = tokens_of(text);
  ASSERT_EQ(one->tokens.size(), 24u);
  EXPECT_TRUE(one->text_ends.empty());
  EXPECT_TRUE(std::equal(one->tokens.begin(), one->tokens.end(), both->tokens.begin() + 24));
  EXPECT_TRUE(throws_with<FormatError>([&] { tokens_of("[" + longer + ", /nonexistent.u16]"); }, "/nonexistent.u16"));
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

// A guide is part of what a cell is where it weighs something, and nowhere else: other cells are those of any sweep.
TEST_F(SweepPlanTest, AGuideIsOfTheCellsWhoseHessiansItWeighs) {
  const std::string weighed = "list: [{bits: 3, solver: gptq, hessian: guided}]",
                    other = "list: [{bits: 3, weighting: fisher}]",
                    both = "list: [{bits: 3, weighting: fisher}, {bits: 3, solver: gptq, hessian: guided}]";
  const auto record_of = [&](const std::string& cells, const std::string& guide, std::size_t job) {
    std::string with = yaml(cells);
    with.replace(with.find("length: 16"), 10, "length: 16" + guide);
    return plan_sweep(parse_sweep(with, "s")).jobs.at(job).cells.at(0).record;
  };
  const std::string whitened = ", guide: whitened", plain = ", guide: plain";
  EXPECT_NE(record_of(weighed, plain, 0).id, record_of(weighed, whitened, 0).id);
  EXPECT_EQ(record_of(weighed, "", 0).id, record_of(weighed, whitened, 0).id);
  EXPECT_THAT(std::string(fact(record_of(weighed, plain, 0).configuration, "calibration")),
              testing::Not(testing::HasSubstr("guide\"")));
  for (const std::string& guide : {std::string(), plain, whitened}) {
    const SweepRecord unweighed = record_of(both, guide, 0), last = record_of(both, guide, 1);
    EXPECT_EQ(unweighed.id, record_of(other, "", 0).id);
    for (const SweepRecord& record : {unweighed, last})
      EXPECT_EQ(plan_repetition(record).jobs.at(0).cells.at(0).record.id, record.id) << guide;
  }
  EXPECT_EQ(plan_sweep(parse_sweep(yaml(weighed), "s")).calibrations.at(0).settings.guide, calib::Guide::kWhitened);
  EXPECT_EQ(plan_sweep(parse_sweep(yaml(other), "s")).calibrations.at(0).settings.guide, calib::Guide::kPlain);
  EXPECT_EQ(plan_repetition(record_of(other, "", 0)).jobs.at(0).cells.at(0).record.id, record_of(other, "", 0).id);
  for (const std::string& guide : {plain, whitened})
    EXPECT_TRUE(throws_with<InvalidArgument>([&] { record_of(other, guide, 0); }, "`guide` concerns", "no cell needs"));
}

// Windows that tuning holds out lie behind those of the calibration, whose statistics do not depend on them.
TEST_F(SweepPlanTest, HeldOutWindowsAreBehindThoseOfTheCalibration) {
  const std::string tuned = "{bits: 3, shifting: true, tuning.epochs: 1, tuning.held_out: 2}",
                    plain = "{bits: 3, shifting: true}";
  const auto plan_of = [&](const std::string& cells, const std::string& samples) {
    std::string text = yaml("list: [" + cells + "]");
    text.replace(text.find("length: 16"), 10, "length: 16" + samples);
    return plan_sweep(parse_sweep(text, "s"));
  };
  const SweepPlan both = plan_of(plain + ", " + tuned, ", samples: 3"), without = plan_of(plain, ", samples: 3"),
                  longer = plan_of(plain, ", samples: 5");
  ASSERT_EQ(both.calibrations.size(), 1u);
  const PlannedCalibration& calibration = both.calibrations[0];
  EXPECT_EQ(calibration.windows.tokens, without.calibrations[0].windows.tokens);
  EXPECT_EQ(calibration.key, without.calibrations[0].key);
  EXPECT_TRUE(without.calibrations[0].further.empty());
  std::vector<TokenId> all = calibration.windows.tokens;
  all.insert(all.end(), calibration.further.begin(), calibration.further.end());
  EXPECT_EQ(all, longer.calibrations[0].windows.tokens);
  EXPECT_EQ(both.jobs.at(0).cells.at(0).record.id, without.jobs.at(0).cells.at(0).record.id);
  const SweepRecord record = both.jobs.at(1).cells.at(0).record;
  EXPECT_EQ(plan_repetition(record).jobs.at(0).cells.at(0).record.id, record.id);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { plan_of(tuned, ""); }, "`held_out`", "say with `samples`"));

  // Ids of the two windows behind the three are what a tuned cell depends on; those behind them nothing depends on.
  const std::string before = test::read_file(temp / "calibration.u16");
  for (const auto& [token, matters] : {std::pair(3 * 16u, true), {5 * 16u - 1, true}, {5 * 16u, false}}) {
    SCOPED_TRACE(token);
    std::string changed = before;
    changed[2 * token] = static_cast<char>(changed[2 * token] + 1);
    test::write_file(temp / "calibration.u16", changed);
    const SweepPlan again = plan_of(plain + ", " + tuned, ", samples: 3");
    EXPECT_EQ(again.jobs.at(0).cells.at(0).record.id, both.jobs.at(0).cells.at(0).record.id);
    EXPECT_EQ(again.jobs.at(1).cells.at(0).record.id != record.id, matters);
    EXPECT_EQ(again.calibrations.at(0).key, calibration.key);
  }
}

// A plan's time is that of making the models too: of epochs, of the ways of a budget.
TEST_F(SweepPlanTest, TimeIsOfQuantizingToo) {
  SweepPlan planned = plan("list: [{bits: 3}, {bits: 3, tuning.epochs: 1}, {bits: 3, tuning.epochs: 4}]");
  estimate(planned, std::uint64_t{1} << 30);
  ASSERT_EQ(planned.jobs.size(), 3u);
  const auto operations = [&](std::size_t job) { return planned.jobs[job].cost.operations; };
  // Of six windows none is held out: all are measured, 6 + 2 · 6 + 4 · 6 passes for an epoch, and 3 · (6 + 4 · 6) for
  // three more.
  EXPECT_TRUE(
      test::near((operations(2) - operations(1)) / (operations(1) - operations(0)), 90.0 / 42.0, {.rel = 1e-9}));
}

// What a job will count for its largest weight, by a calibration as the sweep collects it.
std::uint64_t largest_work(const SweepPlan& planned, const std::filesystem::path& scratch) {
  const PlannedJob& job = planned.jobs.at(0);
  const PlannedModel& model = planned.models.at(0);
  std::vector<std::filesystem::path> files;
  if (job.calibration) {
    files.push_back(scratch);
    test::write_calibration(scratch, model.source.path, job.statistics);
  }
  const quant::Calibration calibration(files, *model.checkpoint, job.statistics);
  std::uint64_t most = 0;
  for (const auto& item : quant::make_plan(model.checkpoint, model.architecture, *job.recipe).items)
    most = std::max(most, quant::work_bytes(item, calibration));
  return most;
}

TEST_F(SweepPlanTest, MemoryOfQuantizingIsTheJobsOwn) {
  constexpr std::uint64_t kMemory = std::uint64_t{1} << 30;
  std::vector<std::uint64_t> figures;
  for (const char* cell :
       {"{bits: 3}", "{bits: 3, weighting: fisher, outliers_sensitive: 0.01}", "{bits: 3, solver: gptq}",
        "{preset: windowed-one-shot}", "{preset: best-one-shot}", "{format: uniform, bits: 4, input_scaling: awq}"}) {
    SCOPED_TRACE(cell);
    const SweepPlan planned = plan(std::string("list: [") + cell + "]");
    const Cost cost = quantization_cost(planned.models.at(0), planned.jobs.at(0), 16, kMemory);
    EXPECT_EQ(cost.memory, largest_work(planned, temp / "calib.h5"));
    EXPECT_EQ(quantization_cost(planned.models.at(0), planned.jobs.at(0), 16, 100).memory, 100u);  // what it is given
    figures.push_back(cost.memory);
  }
  EXPECT_GT(figures[2], figures[0]);
}

// Rows go in slices where nothing ties them together.
TEST_F(SweepPlanTest, MemoryOfWideWeightsIsOfTheirSlices) {
  model::synthesize_model(R"({"model_type": "llama", "vocab_size": 40, "hidden_size": 256, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 2048, "max_position_embeddings": 64})",
                          temp / "wide", {});
  const auto memory_of = [&](const std::string& cell) {
    const SweepPlan planned = plan_sweep(parse_sweep(
        "models: [" + (temp / "wide").string() + "]\nevaluations: [{name: e, tokens: " + (temp / "text.u16").string() +
            ", protocol: blocks, context: 8}]\nlist: [" + cell + "]",
        "s"));
    const Cost cost = quantization_cost(planned.models.at(0), planned.jobs.at(0), 0, std::uint64_t{1} << 30);
    EXPECT_EQ(cost.memory, largest_work(planned, temp / "calib.h5"));
    return cost.memory;
  };
  const ThreadTeam team(1);
  const std::uint64_t weights = std::uint64_t{256} * 2048;
  EXPECT_LT(memory_of("{bits: 3, granularity: channel}"), 3 * weights);
  EXPECT_GT(memory_of("{bits: 3, granularity: tensor}"), 3 * weights);
}

// Three windows of statistics; what tuning has beyond them lies behind, however its `windows` and `held_out` share it.
TEST_F(SweepPlanTest, TuningHasMoreWindowsThanTheCalibration) {
  const auto plan_of = [&](const std::string& windows, const std::string& held_out, const std::string& samples) {
    std::string text = yaml("list: [{bits: 3, shifting: true, tuning.epochs: 1, tuning.windows: " + windows +
                            ", tuning.held_out: " + held_out + "}]");
    text.replace(text.find("length: 16"), 10, "length: 16" + samples);
    return plan_sweep(parse_sweep(text, "s"));
  };
  const SweepPlan more = plan_of("4", "1", ", samples: 3"), fewer = plan_of("2", "1", ", samples: 3"),
                  same = plan_of("3", "2", ", samples: 3");
  EXPECT_EQ(more.calibrations.at(0).further.size(), 2 * 16u);
  EXPECT_EQ(fewer.calibrations.at(0).further.size(), 16u);
  EXPECT_EQ(more.calibrations.at(0).further, same.calibrations.at(0).further);
  EXPECT_EQ(more.calibrations.at(0).key, fewer.calibrations.at(0).key);
  EXPECT_NE(more.jobs.at(0).id, same.jobs.at(0).id);
  const SweepRecord record = more.jobs.at(0).cells.at(0).record;
  EXPECT_EQ(plan_repetition(record).jobs.at(0).cells.at(0).record.id, record.id);
  // All six windows of the file are the calibration's: tuning may have some of them, and no more.
  EXPECT_TRUE(plan_of("4", "0", "").calibrations.at(0).further.empty());
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { plan_of("7", "0", ""); }, "`windows`", "say with `samples`"));
}

TEST_F(SweepPlanTest, AFlavourIsOfTheCellsThatHaveFisherSensitivities) {
  const std::string without = "{bits: 3, solver: gptq, hessian: guided}", with = "{bits: 3, weighting: fisher}";
  const auto record_of = [&](const std::string& cells, const std::string& flavour, std::size_t job) {
    std::string text = yaml("list: [" + cells + "]");
    text.replace(text.find("length: 16"), 10, "length: 16" + flavour);
    return plan_sweep(parse_sweep(text, "s")).jobs.at(job).cells.at(0).record;
  };
  const std::string position = ", fisher: position", both = without + ", " + with;
  EXPECT_EQ(record_of(both, position, 0).id, record_of(without, "", 0).id);
  EXPECT_NE(record_of(both, position, 1).id, record_of(with, "", 0).id);
  for (const std::size_t job : {0u, 1u}) {
    const SweepRecord record = record_of(both, position, job);
    EXPECT_EQ(plan_repetition(record).jobs.at(0).cells.at(0).record.id, record.id);
  }
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { record_of(without, position, 0); }, "`fisher: position` concerns",
                                           "no cell needs"));
}

// A part is not run by itself, so its windows have to hold those of the metric.
TEST_F(SweepPlanTest, PartsOfWhitenedCalibrationsHoldTheWindowsOfTheMetric) {
  SweepPlan plan = plan_sweep(parse_sweep(yaml("list: [{bits: 3, solver: gptq, hessian: guided}]"), "s"));
  const auto of_windows = [&](std::size_t windows, calib::Guide guide) {
    PlannedCalibration calibration = plan.calibrations.at(0);
    calibration.settings.window_tokens = 512;  // four are a batch
    calibration.settings.windows = windows;
    calibration.settings.guide = guide;
    calibration.windows.tokens.assign(windows * 512, 0);
    return calibration;
  };
  const auto whitened = calib::Guide::kWhitened, plain = calib::Guide::kPlain;
  EXPECT_TRUE(is_part_of(of_windows(16, whitened), of_windows(64, whitened), plan.models.at(0)));
  EXPECT_FALSE(is_part_of(of_windows(12, whitened), of_windows(64, whitened), plan.models.at(0)));
  EXPECT_TRUE(is_part_of(of_windows(12, plain), of_windows(64, plain), plan.models.at(0)));
  EXPECT_FALSE(is_part_of(of_windows(16, plain), of_windows(64, whitened), plan.models.at(0)));
}

// 128 windows are a batch. What several sizes take is what the largest takes, and each is as if it were the only one.
TEST_F(SweepPlanTest, ACalibrationOfMoreWindowsMakesThoseOfItsFirstBesides) {
  write_tokens("calibration.u16", 16 * 300);
  struct Ran {
    std::vector<SweepRecord> records;
    std::size_t batches = 0;
    double operations = 0.0;
  };
  const auto run = [&](const std::string& samples, const std::string& output) {
    std::string with = yaml("list: [{bits: 3, weighting: fisher, solver: gptq}]");
    with.replace(with.find("length: 16"), 10, "length: 16, samples: " + samples);
    SweepPlan planned = plan_sweep(parse_sweep(with, "s"));
    estimate(planned, std::uint64_t{1} << 30);
    Ran ran;
    for (const PlannedCalibration& calibration : planned.calibrations) ran.operations += calibration.cost.operations;
    SweepOptions options;
    options.output = temp / output;
    options.cache_bytes = 1;  // what is in use stays all the same
    options.progress = [&](const SweepProgress& at) { ran.batches += !at.stage.empty() && at.share > 0.0; };
    options.finished = [&](const SweepRecord& record) { ran.records.push_back(record); };
    run_sweep(planned, options);
    std::sort(ran.records.begin(), ran.records.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    return ran;
  };
  // The calibrations of a cache, by key.
  const auto statistics = [&](const std::string& output) {
    std::map<std::string, std::string> files;
    for (const auto& file : std::filesystem::recursive_directory_iterator(temp / output / ".sweep" / "cache"))
      if (file.path().extension() == ".h5")
        files[file.path().parent_path().filename().string() + "/" + file.path().filename().string()] =
            test::read_file(file.path());
    return files;
  };
  const Ran small = run("128", "small"), large = run("256", "large"), both = run("[128, 256]", "both");
  ASSERT_GT(small.batches, 0u);
  EXPECT_EQ(both.batches, large.batches);
  EXPECT_EQ(both.operations, large.operations);
  auto expected = statistics("small");
  expected.merge(statistics("large"));
  ASSERT_EQ(expected.size(), 2u);
  EXPECT_TRUE(statistics("both") == expected);
  ASSERT_EQ(both.records.size(), 2u);
  for (const Ran* alone : {&small, &large}) {
    const SweepRecord& one = alone->records.at(0);
    const auto same = [&](const SweepRecord& record) { return record.id == one.id; };
    const auto found = std::find_if(both.records.begin(), both.records.end(), same);
    ASSERT_NE(found, both.records.end());
    EXPECT_EQ(found->measures->perplexity, one.measures->perplexity);
    EXPECT_EQ(found->measures->window_nll, one.measures->window_nll);
  }
  // What a run left that was killed before the smaller one had an entry of its own.
  const std::filesystem::path cache = temp / "both" / ".sweep" / "cache";
  const std::string of_small = statistics("small").begin()->first, of_large = statistics("large").begin()->first;
  const std::filesystem::path small_entry = (cache / of_small).parent_path(),
                              large_entry = (cache / of_large).parent_path();
  std::filesystem::rename(cache / of_small, large_entry / (small_entry.filename().string() + ".h5"));
  std::filesystem::remove_all(small_entry);
  for (const SweepRecord& record : both.records) std::filesystem::remove(temp / "both" / (record.id + ".json"));
  EXPECT_EQ(run("[128, 256]", "both").batches, 0u);
  EXPECT_TRUE(statistics("both") == expected);
  // Not where the smaller one ends within a batch: its sums would be others.
  const Ran within = run("[100, 256]", "within"), hundred = run("100", "hundred");
  EXPECT_EQ(within.batches, large.batches + hundred.batches);
  EXPECT_EQ(within.operations, large.operations + hundred.operations);
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

TEST_F(SweepPlanTest, WindowsBehindTheBosMakeOtherCells) {
  const std::filesystem::path demo = test::source_path("datasets/demo");
  std::filesystem::copy(demo / "gpt2-demo", temp / "demo", std::filesystem::copy_options::recursive);
  const auto planned = [&](const std::string& calibration, const std::string& evaluation) {
    return plan_sweep(
        parse_sweep("models: [" + (temp / "demo").string() +
                        "]\ncalibration: {text: " + (demo / "calibration.txt").string() + ", length: 16, samples: 2" +
                        calibration + "}\nevaluations: [{name: e, tokens: " + (temp / "text.u16").string() +
                        ", protocol: blocks, context: 8" + evaluation + "}]\nlist: [{bits: 3, weighting: fisher}]",
                    "s"));
  };
  for (const auto& [calibration, evaluation] : {std::pair(", bos: true", ""), std::pair("", ", bos: true")})
    EXPECT_TRUE(throws_with<InvalidArgument>([&] { planned(calibration, evaluation); }, (temp / "demo").string(),
                                             "puts nothing there"));
  test::write_file(temp / "demo" / "tokenizer_config.json", R"({"add_bos_token": true, "bos_token": "<|endoftext|>"})");
  std::set<std::string> ids, windows;
  for (const char* calibration : {"", ", bos: true"})
    for (const char* evaluation : {"", ", bos: true"}) {
      const SweepPlan plan = planned(calibration, evaluation);
      const SweepRecord& record = plan.jobs.at(0).cells.at(0).record;
      ids.insert(record.id);
      windows.insert(plan.calibrations.at(0).settings.windows_hash);
      EXPECT_EQ(plan_repetition(record).jobs.at(0).cells.at(0).record.id, record.id);
    }
  EXPECT_EQ(ids.size(), 4u);
  EXPECT_EQ(windows.size(), 2u);
}

TEST_F(SweepPlanTest, CellsThatSayTheSameAreDoneOnce) {
  const SweepPlan planned = plan("list: [{name: a, bits: 3}, {name: b, bits: 3}]");
  EXPECT_EQ(planned.cells, 1u);
  EXPECT_EQ(planned.repeated, 1u);
  EXPECT_THAT(planned.warnings, testing::ElementsAre(testing::HasSubstr("recipe 'b' says the same as 'a'")));
}

TEST_F(SweepPlanTest, OtherNamesOfModelsAndEvaluationsThatSayTheSameAreWarnedOf) {
  std::filesystem::copy(temp / "model", temp / "copy");
  const std::string text = (temp / "text.u16").string();
  const SweepPlan planned =
      plan_sweep(parse_sweep("models: [" + (temp / "model").string() + ", " + (temp / "copy").string() +
                                 "]\nevaluations: [{name: e, tokens: " + text +
                                 ", protocol: blocks, context: 8}, {name: again, tokens: " + text +
                                 ", protocol: blocks, context: 8}]\nlist: [float, {bits: 3}]",
                             "s"));
  EXPECT_EQ(planned.cells, 2u);
  EXPECT_EQ(planned.repeated, 6u);
  EXPECT_THAT(planned.warnings,
              testing::ElementsAre(testing::HasSubstr("evaluation 'again' says the same as 'e' and is left out"),
                                   testing::HasSubstr("model 'copy' says the same as 'model' and is left out")));
}

TEST_F(SweepPlanTest, OfCellsThatSayTheSameOneHasTheNameThatItWasGiven) {
  const auto names = [](const SweepPlan& planned) {
    std::vector<std::string> recipes;
    for (const PlannedJob& job : planned.jobs)
      for (const PlannedCell& cell : job.cells) recipes.emplace_back(fact(cell.record.labels, "recipe"));
    return recipes;
  };
  const SweepPlan mine = plan("grid: {bits: [3, 4]}\nlist: [{bits: 4, name: mine}]");
  EXPECT_THAT(names(mine), testing::ElementsAre("bits=3", "mine"));
  EXPECT_THAT(mine.warnings, testing::IsEmpty());
  EXPECT_EQ(mine.jobs[1].cells[0].record.id, plan("list: [{bits: 4}]").jobs[0].cells[0].record.id);
  const SweepPlan third = plan("grid: {bits: [3, 4]}\nlist: [{bits: 4, name: mine}, {bits: 4, name: yours}]");
  EXPECT_THAT(names(third), testing::ElementsAre("bits=3", "mine"));
  EXPECT_THAT(third.warnings, testing::ElementsAre(testing::HasSubstr("recipe 'yours' says the same as 'mine'")));
  EXPECT_THAT(names(plan("list: [{bits: 4, name: mine}, {bits: 4}]")), testing::ElementsAre("mine"));
}

TEST_F(SweepPlanTest, SourcesThatNestWithoutEndAreRefused) {
  const SweepRecord record = plan("list: [{bits: 3, weighting: fisher}]").jobs[0].cells[0].record;
  constexpr std::size_t kDepth = 200'000;  // copied or printed, that is more than a stack holds
  for (const char* name : {"calibration", "evaluation"}) {
    SweepRecord hostile = record;
    set_fact(hostile.sources, name, R"({"text": )" + std::string(kDepth, '[') + std::string(kDepth, ']') + "}");
    EXPECT_TRUE(throws_with<FormatError>([&] { plan_repetition(hostile); }, fmt::format("sources.{}: not JSON", name)));
  }
}

TEST_F(SweepPlanTest, ARepetitionIsTheSameCellOrSaysWhatHasChanged) {
  const SweepRecord record = plan("list: [{bits: 3, weighting: fisher}]").jobs[0].cells[0].record;
  EXPECT_EQ(plan_repetition(record).jobs.at(0).cells.at(0).record.id, record.id);
  SweepRecord older = record;  // which said of tokens what belongs to text
  std::string source(fact(record.sources, "calibration"));
  EXPECT_THAT(source, testing::Not(testing::HasSubstr("seed")));
  set_fact(older.sources, "calibration", source.insert(1, R"("seed":0,"field":"text",)"));
  EXPECT_EQ(plan_repetition(older).jobs.at(0).cells.at(0).record.id, record.id);
  // … or gave the text of their calibration another use.
  std::string evaluation(fact(record.sources, "evaluation"));
  older.labels.emplace_back("use", "test");
  set_fact(older.sources, "evaluation", evaluation.insert(1, R"("use":"test",)"));
  const SweepPlan again = plan_repetition(older);
  EXPECT_EQ(again.jobs.at(0).cells.at(0).record.id, record.id);
  EXPECT_EQ(fact(again.jobs.at(0).cells.at(0).record.labels, "use"), "test");
  set_fact(older.sources, "evaluation", R"({"name":"e","text":[")" + (temp / "notes").string() + R"("]})");
  EXPECT_FALSE(throws_with<FormatError>([&] { plan_repetition(older); }, ".jsonl"))
      << "evaluations read files of any name";
  write_tokens("text.u16", 40);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { plan_repetition(record); }, "the evaluation is another one now"));
}

TEST_F(SweepPlanTest, ARepetitionSaysThatPathsAreThoseOfTheSweepsDirectory) {
  const SweepRecord record = plan("list: [{bits: 3, weighting: fisher}]").jobs[0].cells[0].record;
  for (const char* name : {"model", "text.u16", "calibration.u16"}) {
    std::filesystem::rename(temp / name, temp / "elsewhere");
    EXPECT_TRUE(throws_with<FormatError>([&] { plan_repetition(record); }, "there is no '" + (temp / name).string(),
                                         "those of the directory where its sweep ran"));
    std::filesystem::rename(temp / "elsewhere", temp / name);
  }
}

TEST_F(SweepPlanTest, ACheckpointIsNamedByWhatIsInIt) {
  quantized("one", 3);
  quantized("two", 3);
  quantized("other", 2);
  const auto cell = [&](const std::string& name) {
    return plan("list: [float, {checkpoint: " + (temp / name).string() + "}]").jobs.at(1).cells.at(0).record;
  };
  const SweepRecord one = cell("one");
  EXPECT_EQ(one.id, cell("two").id);
  EXPECT_NE(one.id, cell("other").id);
  EXPECT_NE(one.id, plan("list: [float]").jobs.at(0).cells.at(0).record.id);
  EXPECT_EQ(plan_repetition(one).jobs.at(0).cells.at(0).record.id, one.id);
  quantized("one", 2);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { plan_repetition(one); }, "the recipe is another one now"));
  std::filesystem::remove_all(temp / "one");
  EXPECT_TRUE(throws_with<FormatError>([&] { plan_repetition(one); }, (temp / "one").string()));
  SweepRecord nowhere = one;
  std::erase_if(nowhere.sources, [](const auto& source) { return source.first == "checkpoint"; });
  EXPECT_TRUE(throws_with<FormatError>([&] { plan_repetition(nowhere); }, "sources.checkpoint"));
}

TEST_F(SweepPlanTest, ACheckpointThatIsNoFormOfTheModelIsRefused) {
  const auto refused = [&](const std::string& name, const std::string& why) {
    const std::string cell = "list: [{checkpoint: " + (temp / name).string() + "}]";
    return throws_with<InvalidArgument>([&] { plan(cell); }, why, (temp / name).string());
  };
  test::tiny_gpt2().write(temp / "gpt2");
  EXPECT_TRUE(refused("gpt2", "is no form of model 'model'"));
  EXPECT_TRUE(refused("gpt2", "{model}"));
  EXPECT_TRUE(refused("model", "is not quantized: its linear layers have 32.0 bits"));
  quantized("heads", 3);
  set_config("heads", {{"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"head_dim", 4}});
  EXPECT_TRUE(refused("heads", "a width of 16, 4 heads"));
}

TEST_F(SweepPlanTest, ACheckpointThatComputesOtherwiseIsWarnedOf) {
  quantized("other", 3);
  set_config("other", {{"rope_theta", 123.0}});
  const auto warnings = plan("list: [{checkpoint: " + (temp / "other").string() + "}]").warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("another rotary base (123 for"), std::string::npos) << warnings[0];
}

TEST_F(SweepPlanTest, WindowsFitIntoTheLearnedPositionsOfACheckpoint) {
  test::TinyModel model = test::tiny_gpt2();
  model.write(temp / "model");
  test::TinyTensor& positions = model.tensor("wpe.weight");
  positions.bytes.resize(positions.bytes.size() / positions.shape[0] * 6);
  positions.shape[0] = 6;
  model.write(temp / "cut");
  set_config("cut", {{"n_positions", 6}});
  quantized("short", 3, "cut");
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { plan("list: [{checkpoint: " + (temp / "short").string() + "}]"); },
                                           "windows of 8 tokens", "has learned 6 positions"));
}

// In the words of the sweep, and before other cells are done.
TEST_F(SweepPlanTest, SpeedsFitIntoTheLearnedPositions) {
  test::tiny_gpt2().write(temp / "gpt2");
  const auto refused = [&](const std::string& model, const std::string& speed, const std::string& message) {
    const std::string file = "models: [{name: m, path: " + (temp / model).string() +
                             "}]\nevaluations: [{name: fast, speed: {" + speed + "}}]\nlist: [float]\n";
    return throws_with<InvalidArgument>([&] { plan_sweep(parse_sweep(file, "s")); },
                                        "sweep: evaluation 'fast' of model 'm': speed: " + message, "`exclude`");
  };
  EXPECT_TRUE(refused("gpt2", "contexts: [8, 4096], generate: 2", "contexts 4096: the model has "));
  EXPECT_TRUE(refused("gpt2", "prompt: 4000, generate: 90", "prompt 4000 and generate 90 need 4091 positions"));
  EXPECT_TRUE(refused("gpt2", "prompt: 4000, generate: 90, cache: window", "prompt 4000 and generate 90 need 4090"));
  EXPECT_TRUE(refused("model", "contexts: 32, cache: window", "contexts 32: expected more than a window's chunk, 64"));
}

// What was looked at is what is measured, whatever lies at its path when its turn comes.
TEST_F(SweepPlanTest, WhatIsReplacedAfterPlanningIsMeasuredAsPlanned) {
  quantized("given", 3);
  const std::string cells =
      "list: [float, {name: given, checkpoint: " + (temp / "given").string() + "}, {name: made, bits: 2}]";
  const auto results = [&](const std::string& output, const SweepPlan& planned) {
    std::map<std::string, double> losses;
    SweepOptions options;
    options.output = temp / output;
    options.finished = [&](const SweepRecord& record) {
      ASSERT_TRUE(record.measures) << record.error->message;
      losses[std::string(fact(record.labels, "recipe"))] = record.measures->nll_nats_per_token;
    };
    run_sweep(planned, options);
    return losses;
  };
  const SweepPlan before = plan(cells), again = plan(cells);
  const auto expected = results("before", before);
  ASSERT_EQ(expected.size(), 3u);
  for (const char* name : {"model", "given"}) std::filesystem::rename(temp / name, temp / (std::string(name) + ".old"));
  test::tiny_llama().write(temp / "model");
  quantized("given", 2);
  set_config("model", {{"rms_norm_eps", 0.5}});
  EXPECT_EQ(results("after", again), expected);
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
  set_program_identity("another version");
  EXPECT_NE(plan("list: [{" + solver + "true}]").calibrations[0].key, with.calibrations[0].key);
  set_program_identity("");
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
  EXPECT_NE(planned.warnings[0].find("rule 'nowhere' applies to no tensor of 'model'"), std::string::npos);
}

}  // namespace
}  // namespace nibble::eval
