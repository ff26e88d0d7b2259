#include <gtest/gtest.h>

#include "calib/collect/collector.h"
#include "calib/stats/stats_file.h"
#include "tests/model/transformer/golden_files.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/layers.h"

// Statistics of an independent float32 implementation, of 8 windows. Sums over 4096 tokens of activations that
// themselves differ by float rounding in six layers: 1e-4 in the Frobenius norm; gradients went back through as many
// layers again, and are squared: 1e-3.

namespace nibble::test {
namespace {

using calib::LayerStats;

class CalibrationGolden : public testing::TestWithParam<GoldenModel> {};

std::vector<float> to_float(const std::vector<double>& values) { return {values.begin(), values.end()}; }

std::vector<float> row_sums(const Matrix<float>& m) {
  std::vector<float> sums(m.rows());
  for (std::size_t r = 0; r < m.rows(); ++r) {
    double sum = 0.0;
    for (const float value : m.row(r)) sum += static_cast<double>(value);
    sums[r] = static_cast<float>(sum);
  }
  return sums;
}

std::vector<float> column_sums(const Matrix<float>& m) {
  std::vector<double> sums(m.cols());
  for (std::size_t r = 0; r < m.rows(); ++r)
    for (std::size_t c = 0; c < m.cols(); ++c) sums[c] += static_cast<double>(m(r, c));
  return to_float(sums);
}

TEST_P(CalibrationGolden, StatisticsAreThoseOfTheReferenceImplementation) {
  const GoldenModel& golden = GetParam();
  if (const auto reason = golden.reason_to_skip()) GTEST_SKIP() << *reason;
  const LoadedModel loaded = load(golden.model_directory());
  const GoldenTensors expected(golden.golden("calibration.safetensors"));
  const std::vector<std::uint32_t> ids = expected.ids("windows.ids");

  const TempDir dir;
  const calib::CalibrationJob job{.model = *loaded.model,
                                  .tokens = ids,
                                  .settings = {.window_tokens = ids.size() / 8,
                                               .collected = {.activations = true, .fisher = true, .hessian = true}},
                                  .output = dir / "calib.h5"};
  calib::calibrate(job);
  const auto file = calib::StatsFile::open(job.output);

  const auto layers = test::layers_of(loaded.architecture);
  EXPECT_EQ(file->layers().size(), layers.size());
  for (const auto& layer : layers) {
    SCOPED_TRACE(layer.module);
    const LayerStats stats = file->read(layer.module);
    // The reference knows whole tensors; of a fused one this layer is some rows, which share the input.
    const std::string tensor = layer.weight.tensor.substr(0, layer.weight.tensor.rfind(".weight"));
    const auto vector = [&](const char* name) { return expected.matrix(tensor + "." + name); };
    const auto own_rows = [&](const Matrix<float>& all, std::size_t width) {
      std::vector<float> rows;
      for (std::size_t i = 0; i < layer.out; ++i) {
        const float* row = all.data() + layer.weight.part.row(i) * width;
        rows.insert(rows.end(), row, row + width);
      }
      return rows;
    };
    EXPECT_TRUE(relative_error_within(to_float(stats.sum_x), vector("sum_x").values(), 1e-4));
    EXPECT_TRUE(relative_error_within(to_float(stats.sum_x2), vector("sum_x2").values(), 1e-4));
    std::vector<float> largest(layer.in);
    for (std::size_t i = 0; i < layer.in; ++i) largest[i] = std::max(-stats.min_x[i], stats.max_x[i]);
    EXPECT_TRUE(relative_error_within(largest, vector("max_abs_x").values(), 1e-4));
    EXPECT_TRUE(relative_error_within(row_sums(stats.fisher), own_rows(vector("fisher_row_sums"), 1), 1e-3));
    if (layer.weight.is_whole()) {
      EXPECT_TRUE(relative_error_within(column_sums(stats.fisher), vector("fisher_col_sums").values(), 1e-3));
    }
    if (expected.contains(tensor + ".fisher")) {
      EXPECT_TRUE(relative_error_within(stats.fisher.values(), own_rows(vector("fisher"), layer.in), 1e-3));
    }
    if (expected.contains(tensor + ".sum_xxt")) {
      EXPECT_TRUE(relative_error_within(stats.sum_xxt.values(), vector("sum_xxt").values(), 1e-4));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CalibrationGolden,
                         testing::ValuesIn(kGoldenModels, kGoldenModels + 4),  // not stories260k, which has none
                         golden_test_name);

}  // namespace
}  // namespace nibble::test
