#include "eval/sweep/run_sweep.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "eval/sweep/claims.h"
#include "eval/sweep/sweep_cost.h"
#include "eval/sweep/sweep_file.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

// A little Llama, six windows of 16 tokens to calibrate on and four of 8 to evaluate.
struct RunSweepTest : testing::Test {
  test::TempDir temp;
  std::filesystem::path output = temp / "results";

  void SetUp() override {
    test::tiny_llama().write(temp / "model");
    for (const auto& [name, count] : {std::pair("calibration.u16", 96u), std::pair("text.u16", 32u)}) {
      std::string bytes;
      for (unsigned i = 0; i < count; ++i) bytes += {static_cast<char>(i * i % 37), '\0'};
      test::write_file(temp / name, bytes);
    }
  }
  SweepPlan plan(const std::string& cells, bool divergence = false) const {
    return plan_sweep(parse_sweep(
        "models: [" + (temp / "model").string() + "]\n" +
            "calibration: {tokens: " + (temp / "calibration.u16").string() + ", length: 16, collect: none}\n" +
            "evaluations: [{name: e, tokens: " + (temp / "text.u16").string() + ", protocol: blocks, context: 8" +
            (divergence ? ", divergence: true" : "") + "}]\n" + cells,
        "s"));
  }
  SweepSummary run(const SweepPlan& planned) const {
    SweepOptions options;
    options.output = output;
    return run_sweep(planned, options);
  }
  SweepRecord record_of(const PlannedCell& cell) const { return read_record(output / (cell.record.id + ".json")); }
  std::string name_of(const PlannedCell& cell) const { return std::string(fact(record_of(cell).labels, "recipe")); }
};

TEST_F(RunSweepTest, RecordsThatAnotherProcessWorksAtKeepTheirNames) {
  run(plan("list: [{name: before, bits: 2}]"));
  const SweepPlan today = plan("list: [{name: today, bits: 2}]");
  const PlannedJob& job = today.jobs.front();
  {
    const auto other = Claims(output / ".sweep/claims").try_claim(job.id);
    EXPECT_EQ(run(today).present, 1u);
    EXPECT_EQ(name_of(job.cells.front()), "before");
  }
  EXPECT_EQ(run(today).present, 1u);
  EXPECT_EQ(name_of(job.cells.front()), "today");
}

TEST_F(RunSweepTest, RecordsSayWhereTheirModelIsNow) {
  run(plan("list: [{bits: 2}]"));
  std::filesystem::rename(temp / "model", temp / "moved");
  const std::string yaml = "models: [{path: " + (temp / "moved").string() + ", name: model}]\n" +
                           "evaluations: [{name: e, tokens: " + (temp / "text.u16").string() +
                           ", protocol: blocks, context: 8}]\nlist: [{bits: 2}]";
  const SweepPlan moved = plan_sweep(parse_sweep(yaml, "s"));
  EXPECT_EQ(run(moved).present, 1u);
  const SweepRecord record = record_of(moved.jobs.front().cells.front());
  EXPECT_EQ(fact(record.sources, "model"), (temp / "moved").string());
  EXPECT_EQ(plan_repetition(record).jobs.at(0).cells.at(0).record.id, record.id);
}

TEST_F(RunSweepTest, RecordsSayWhereTheyLieNow) {
  const SweepPlan planned = plan("list: [{bits: 2}]");
  const PlannedCell& cell = planned.jobs.front().cells.front();
  const auto command = [&] { return "nibble sweep --repeat " + (output / (cell.record.id + ".json")).string(); };
  run(planned);
  EXPECT_EQ(record_of(cell).command, command());
  std::filesystem::rename(output, temp / "moved");
  output = temp / "moved";
  EXPECT_EQ(run(planned).present, 1u);
  EXPECT_EQ(record_of(cell).command, command());
}

TEST_F(RunSweepTest, CellsWhoseCalibrationFailsSaySoAndTheOthersGoOn) {
  const SweepPlan planned = plan("list: [float, {bits: 2}, {bits: 2, weighting: fisher}]");
  SweepOptions options;
  options.output = output;
  options.memory_bytes = std::uint64_t{1} << 16;  // enough for the little weights
  const SweepSummary summary = run_sweep(planned, options);
  EXPECT_EQ(summary.done, 2u);
  EXPECT_EQ(summary.failed, 1u);
  const SweepRecord failed = record_of(planned.jobs.back().cells.front());
  ASSERT_TRUE(failed.error);
  EXPECT_EQ(failed.error->kind, "InvalidArgument");
  EXPECT_NE(failed.error->message.find("--memory grants"), std::string::npos) << failed.error->message;
}

// A calibration; and a float model that two cells are compared with.
TEST_F(RunSweepTest, NoSharedWorkIsDoneWhileASpeedIsMeasuredOnTheMachine) {
  char machine[256] = "";
  ASSERT_EQ(gethostname(machine, sizeof machine - 1), 0);
  for (const std::string cells : {"list: [{bits: 2, weighting: fisher}]", "list: [{bits: 2}, {bits: 3}]"}) {
    output = temp / (cells + " results");
    std::filesystem::create_directories(output / ".sweep");
    const std::filesystem::path cache = output / ".sweep/cache";
    auto speed = Claims(output / ".sweep/claims").try_claim(fmt::format("machine {}", machine));
    std::vector<std::string> stages;
    std::size_t complete = 0;  // entries of the cache, while there is the speed
    SweepOptions options;
    options.output = output;
    options.progress = [&](const SweepProgress& progress) {
      if (!speed || !progress.stage.starts_with("waiting for")) return;
      stages.push_back(progress.stage);
      for (const auto& entry : std::filesystem::directory_iterator(cache))
        complete += exists(entry.path() / "complete");
      speed.reset();
    };
    run_sweep(plan(cells, cells.find("fisher") == std::string::npos), options);
    EXPECT_EQ(stages, std::vector<std::string>{"waiting for a speed that is measured on this machine"});
    EXPECT_EQ(complete, 0u);
  }
}

// Of float models that are compared with: kept for two cells, and then used by one; for one alone not made.
TEST_F(RunSweepTest, StatesThatAreThereAreUsedByASingleCellToo) {
  const auto kept = [&] {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(output / ".sweep/cache"))
      if (exists(entry.path() / "states.f32")) found.push_back(entry.path() / "complete");
    return found;
  };
  run(plan("list: [{bits: 4}]", true));
  EXPECT_TRUE(kept().empty());
  run(plan("list: [{bits: 2}, {bits: 3}]", true));
  ASSERT_EQ(kept().size(), 1u);
  const auto long_ago = std::filesystem::last_write_time(kept().front()) - std::chrono::hours(1);
  std::filesystem::last_write_time(kept().front(), long_ago);
  EXPECT_EQ(run(plan("list: [{bits: 5}]", true)).done, 1u);
  EXPECT_GT(std::filesystem::last_write_time(kept().front()), long_ago);  // of its last use
}

// A rate of next to nothing changes no palette, so what differs would be the windows that codes were solved for.
TEST_F(RunSweepTest, SequentialStatisticsAreOfTheCalibrationsWindowsAlone) {
  const auto palettes = [&](const std::string& cells) {
    std::string text = "list: [{bits: 2, solver: gptq, sequential: true" + cells + "}]";
    SweepPlan planned = plan_sweep(parse_sweep(
        "models: [" + (temp / "model").string() + "]\ncalibration: {tokens: " + (temp / "calibration.u16").string() +
            ", length: 16, samples: 2, collect: none}\nevaluations: [{name: e, tokens: " +
            (temp / "text.u16").string() + ", protocol: blocks, context: 8}]\n" + text,
        "s"));
    run(planned);
    return record_of(planned.jobs.at(0).cells.at(0)).measures->nll_nats_per_token;
  };
  const double alone = palettes("");
  EXPECT_EQ(palettes(", tuning.epochs: 1, tuning.learning_rate: 1e-30, tuning.windows: 4, tuning.held_out: 2"), alone);
}

// Of nine windows that are all the same, the one held out stands in those that are trained on.
TEST_F(RunSweepTest, RecordsSayWhatQuantizingWarnedOf) {
  std::string bytes;
  for (unsigned i = 0; i < 9 * 16; ++i) bytes += {static_cast<char>(i % 16), '\0'};
  test::write_file(temp / "calibration.u16", bytes);
  const SweepPlan planned = plan("list: [{bits: 2, tuning.epochs: 1}, {bits: 2}]");
  run(planned);
  const auto warnings = record_of(planned.jobs.at(0).cells.at(0)).warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("100 % of the tokens held out"), std::string::npos) << warnings[0];
  EXPECT_TRUE(record_of(planned.jobs.at(1).cells.at(0)).warnings.empty());
}

TEST_F(RunSweepTest, WhatTakesAllMemoryIsInWorkAlone) {
  SweepPlan planned = plan("list: [{bits: 2, tuning.epochs: 1}, {bits: 3}, {bits: 3, tuning.epochs: 1}, {bits: 4}]");
  SweepOptions options;
  options.output = output;
  estimate(planned, options.memory_bytes);
  std::vector<const PlannedJob*> jobs;
  for (const PlannedJob& job : planned.jobs) {
    jobs.push_back(&job);
    EXPECT_EQ(job.cost.memory == options.memory_bytes, job.needs_text);
  }
  EXPECT_EQ(workers_for(jobs, 2, options.memory_bytes), 2u);
  const auto in_work = [&](const PlannedJob& job) { return exists(output / ".sweep/scratch" / job.id); };
  bool beside = false;
  options.progress = [&](const SweepProgress& progress) {
    if (!progress.stage.empty()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(4));  // time for others to begin, if they do
    const auto all = std::ranges::count_if(planned.jobs, in_work);
    for (const PlannedJob& job : planned.jobs) beside = beside || (all > 1 && job.needs_text && in_work(job));
  };
  const ThreadTeam team(2);
  EXPECT_EQ(run_sweep(planned, options).done, 4u);
  EXPECT_FALSE(beside);
}

TEST_F(RunSweepTest, WhatIsDoneTakesNoThreadsFromWhatIsNot) {
  const SweepPlan planned = plan("list: [{bits: 2}, {bits: 3}, {bits: 4}]");
  const ThreadTeam team(2);
  run(planned);
  const PlannedCell& again = planned.jobs.at(1).cells.at(0);
  const auto threads = [&] {
    for (const auto& [name, value] : record_of(again).timings)
      if (name == "threads") return value;
    return 0.0;
  };
  EXPECT_EQ(threads(), 1.0) << "beside another";
  std::filesystem::remove(output / (again.record.id + ".json"));
  EXPECT_EQ(run(planned).done, 1u);
  EXPECT_EQ(threads(), 2.0);
}

TEST_F(RunSweepTest, ARecordThatIsDeletedMeanwhileIsLeftToTheNextRun) {
  const SweepPlan planned = plan("list: [{name: fisher, bits: 2, weighting: fisher}, {name: a, bits: 3}, float]");
  run(planned);
  const std::filesystem::path deleted = output / (planned.jobs.at(0).cells[0].record.id + ".json");
  std::filesystem::remove(output / (planned.jobs.at(1).cells[0].record.id + ".json"));
  // Records that were there are not asked for again: its calibration was not made, for nothing needed it.
  SweepOptions options;
  options.output = output;
  bool removed = false;
  options.progress = [&](const SweepProgress&) { removed = std::filesystem::remove(deleted) || removed; };
  EXPECT_NO_THROW(run_sweep(planned, options));
  EXPECT_TRUE(removed);
  EXPECT_EQ(run(planned).done, 1u);
  EXPECT_TRUE(std::filesystem::exists(deleted));
}

TEST_F(RunSweepTest, RecordsAreNotWrittenWhereNobodySays) {
  output.clear();
  EXPECT_TRUE(
      test::throws_with<InvalidArgument>([&] { run(plan("list: [float]")); }, "output: expected a path, got ''"));
}

}  // namespace
}  // namespace nibble::eval
