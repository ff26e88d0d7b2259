#include "calib/collect/plan.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "model/architecture/families.h"
#include "model/architecture/known_shapes.h"
#include "model/architecture/parts.h"
#include "tests/calib/collect/toy_calibration.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::calib {
namespace {

TEST(CalibrationPlan, CountsTheSquaresOfOutputsButNotTheHeads) {
  const auto architecture = model::parse_architecture(model::architecture_config("llama-3.1-8b", {}), "config");
  RunSettings settings{.windows = 16, .window_tokens = 512, .collected = {.fisher = true}};
  const auto plan = [&](bool outputs, bool head) {
    settings.collected.output_hessian = outputs;
    settings.head = head;
    return plan_calibration(architecture, settings, std::uint64_t{64} << 30);
  };
  // q and o 4096, k and v 1024, gate and up 14336, down 4096 outputs; floats in the shards and again in the file.
  const std::uint64_t squares = 32 * (3ull * 4096 * 4096 + 2ull * 1024 * 1024 + 2ull * 14336 * 14336);
  EXPECT_EQ(plan(true, false).disk_bytes - plan(false, false).disk_bytes, 2 * 4 * squares);
  EXPECT_EQ(plan(true, true).disk_bytes - plan(false, true).disk_bytes, 2 * 4 * squares);
  EXPECT_EQ(plan(true, false).accumulator_bytes - plan(false, false).accumulator_bytes, 8 * squares / 32);
  // A symmetric product is half of one.
  EXPECT_TRUE(test::near(plan(true, false).operations - plan(false, false).operations,
                         2.0 * 0.5 * static_cast<double>(squares) * 16 * 512, {.rel = 1e-6}));
}

// What docs/formats.md says of it.
TEST(CalibrationPlan, OutputHessiansOfAnEightBillionParameterModelNeedMoreThanFourGigabytes) {
  const auto architecture = model::parse_architecture(model::architecture_config("llama-3.1-8b", {}), "config");
  RunSettings settings{
      .windows = 64, .window_tokens = 512, .collected = {.activations = true, .fisher = true, .guided_hessian = true}};
  EXPECT_NO_THROW(plan_calibration(architecture, settings, std::uint64_t{4} << 30));
  settings.collected.output_hessian = true;
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { plan_calibration(architecture, settings, std::uint64_t{4} << 30); }, "--memory grants 4096 MB"));
  EXPECT_NO_THROW(plan_calibration(architecture, settings, std::uint64_t{8} << 30));
  settings.guide = Guide::kWhitened;  // as docs/formats.md says
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { plan_calibration(architecture, settings, std::uint64_t{8} << 30); }, "--memory grants 8192 MB", "plain"));
  EXPECT_NO_THROW(plan_calibration(architecture, settings, std::uint64_t{12} << 30));
}

TEST(CalibrationPlan, CountsWhatWeighsTokens) {
  const ToyCalibration toy("llama");
  CalibrationJob plain = toy.job("calib.h5"), whitened = plain;
  whitened.settings.guide = Guide::kWhitened;
  EXPECT_GT(plan_job(whitened).memory_bytes, plan_job(plain).memory_bytes);
  EXPECT_GT(plan_job(whitened).disk_bytes, plan_job(plain).disk_bytes);
  EXPECT_GT(plan_job(whitened).operations, 1.2 * plan_job(plain).operations);
  // A part's whole has the metric; several processes share its windows.
  const auto planned = [&](const CalibrationJob& of, const PlanContext& context) {
    RunSettings settings = of.settings;
    settings.windows = 64;
    settings.window_tokens = 8;
    return plan_calibration(of.model.architecture(), settings, std::uint64_t{4} << 30, context);
  };
  EXPECT_EQ(planned(whitened, {.has_metric = true}).disk_bytes, planned(plain, {}).disk_bytes);
  EXPECT_EQ(planned(whitened, {.has_metric = true}).metric_operations, 0.0);
  EXPECT_LT(planned(whitened, {.processes = 4}).metric_operations, planned(whitened, {}).metric_operations);
  whitened.memory_bytes = 1;
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { calibrate(whitened); }, "--guide plain"));
}

TEST(CalibrationPlan, MoreThanTheDiskHoldsIsRefused) {
  CalibrationPlan plan;
  plan.disk_bytes = std::uint64_t{1} << 60;
  EXPECT_TRUE(test::throws_with<FormatError>([&] { require_disk_space(plan, "out.h5", 0); }, "are free"));
  EXPECT_NO_THROW(require_disk_space(plan, "out.h5", plan.disk_bytes));
}

// Llama-3.1-8B: Fisher of all layers is 28 GB in float, but a block's sums and the batch fit 4 GB.
TEST(CalibrationPlan, AnEightBillionParameterModelFitsASmallMachine) {
  const auto architecture = model::parse_architecture(model::architecture_config("llama-3.1-8b", {}), "config");
  const RunSettings settings{.windows = 100, .window_tokens = 512, .collected = {.activations = true, .fisher = true}};
  const CalibrationPlan plan = plan_calibration(architecture, settings, std::uint64_t{4} << 30);
  EXPECT_TRUE(plan.residuals_on_disk);
  EXPECT_LE(plan.memory_bytes, std::uint64_t{4} << 30);
  EXPECT_GE(plan.disk_bytes, 2 * std::uint64_t{27'900'000'000});  // the shards and the file
  // 8 passes' worth of multiply-adds over 7 G weights.
  EXPECT_GE(plan.operations, 2 * 4 * 6.9e9 * 51200);
}

// smollm-135m's shape: some minutes for 256 windows of 512, a second for one.
class PlanOfARun : public testing::Test {
 protected:
  CalibrationPlan plan(std::size_t windows, std::uint64_t disk) const {
    const RunSettings settings{
        .windows = windows, .window_tokens = 512, .collected = {.activations = true, .fisher = true}};
    return plan_calibration(architecture_, settings, std::uint64_t{64} << 30, {.disk = disk});
  }
  const model::Architecture architecture_ =
      model::parse_architecture(model::architecture_config("smollm-135m", {}), "config");
};

TEST_F(PlanOfARun, LongOnesKeepTheStreamInFilesWhereTheDiskHasRoom) {
  const CalibrationPlan in_memory = plan(256, 0);
  EXPECT_FALSE(in_memory.residuals_on_disk);
  const std::uint64_t bytes = in_memory.residual_bytes;
  EXPECT_FALSE(plan(256, bytes - 1).residuals_on_disk);
  const CalibrationPlan in_files = plan(256, bytes);
  EXPECT_TRUE(in_files.residuals_on_disk);
  EXPECT_EQ(in_memory.memory_bytes - in_files.memory_bytes, bytes);
  EXPECT_EQ(in_files.disk_bytes - in_memory.disk_bytes, bytes);
  EXPECT_FALSE(plan(1, ~std::uint64_t{0}).residuals_on_disk);
}

// Output and shards lie there too: what would not fit beside them stays in memory.
TEST_F(PlanOfARun, LongOnesKeepTheStreamInMemoryWhereTheOutputTakesTheDisk) {
  const CalibrationPlan in_memory = plan(12, 0);
  const std::uint64_t all = in_memory.disk_bytes + in_memory.residual_bytes,
                      enough = (all + 1) / 2;  // half of the free
  ASSERT_GT(enough, in_memory.residual_bytes);
  EXPECT_FALSE(plan(12, enough - 1).residuals_on_disk);
  EXPECT_TRUE(plan(12, enough).residuals_on_disk);
}

TEST(CalibrationPlan, CountsAttentionByWhatQueriesSee) {
  auto architecture = model::parse_architecture(model::architecture_config("smollm-135m", {}), "config");
  const auto operations = [&](std::size_t tokens, std::size_t sliding, const StatisticSet& collected) {
    for (model::BlockSpec& block : architecture.blocks) block.attention.window = sliding;
    const RunSettings settings{.windows = 8192 / tokens, .window_tokens = tokens, .collected = collected};
    return plan_calibration(architecture, settings, std::uint64_t{64} << 30).operations;
  };
  // Of as many tokens, one window of 8,192 in place of eight of 1,024: 7/8 of 8,192 / 2 keys more for each query, over
  // which two products of all heads' width run forward.
  const double width = 576, blocks = 30, more = 2 * width * (8192 - 1024) / 2.0 * blocks * 8192 * 2;
  const StatisticSet inputs{.activations = true}, gradients{.activations = true, .fisher = true};
  EXPECT_TRUE(test::near(operations(8192, 0, inputs) - operations(1024, 0, inputs), more, {.rel = 1e-9}));
  EXPECT_TRUE(test::near(operations(8192, 0, gradients) - operations(1024, 0, gradients), 4.5 * more, {.rel = 1e-9}));
  EXPECT_LT(operations(8192, 1024, inputs), operations(8192, 0, inputs));
  EXPECT_EQ(operations(1024, 1024, inputs), operations(1024, 0, inputs));
}

TEST_F(PlanOfARun, CountsWhatThreadsKeep) {
  const auto bytes = [&](std::size_t threads) {
    set_thread_count(threads);
    const std::uint64_t planned = plan(1, 0).memory_bytes;
    set_thread_count(0);
    return planned;
  };
  // Decoded rows of the widest layer: 512 of 1536 floats.
  EXPECT_GE(bytes(256) - bytes(2), 254u * 512 * 1536 * sizeof(float));
  EXPECT_EQ(bytes(3) - bytes(2), bytes(2) - bytes(1));
  set_thread_count(256);
  const RunSettings settings{.windows = 1, .window_tokens = 512, .collected = {.activations = true}};
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { plan_calibration(architecture_, settings, std::uint64_t{400} << 20); }, "fewer --threads"));
  set_thread_count(0);
}

TEST(DiskForScratch, IsHalfOfWhatIsFreeAndOfWhatIsThereAlready) {
  const test::TempDir dir;
  const auto nearly = [](std::uint64_t a, std::uint64_t b) {
    return (a > b ? a - b : b - a) < (std::uint64_t{1} << 30);
  };
  const std::uint64_t free = std::filesystem::space(dir.path()).available;
  EXPECT_TRUE(nearly(disk_for_scratch(dir / "none.work"), free / 2));
  std::filesystem::create_directory(dir / "left.work");
  // A hole takes no room, so what is free stays.
  test::write_file(dir / "left.work" / "boundary.0000.residual", "");
  std::filesystem::resize_file(dir / "left.work" / "boundary.0000.residual", std::uint64_t{64} << 30);
  EXPECT_TRUE(nearly(disk_for_scratch(dir / "left.work"), free / 2 + (std::uint64_t{32} << 30)));
  EXPECT_EQ(disk_for_scratch(dir / "no" / "such" / "directory"), 0u);
}

}  // namespace
}  // namespace nibble::calib
