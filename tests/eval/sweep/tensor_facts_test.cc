#include "eval/sweep/tensor_facts.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/quant/job/tiny_models.h"
#include "tests/support/files.h"

namespace nibble::eval {
namespace {

TEST(HistogramOf, CountsEveryValueOnceBetweenTheSmallestAndTheLargest) {
  std::vector<float> values(257);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = -1.0f + static_cast<float>(i) / 128.0f;  // to 1
  const Histogram histogram = histogram_of(values);
  EXPECT_EQ(histogram.low, -1.0);
  EXPECT_EQ(histogram.high, 1.0);
  ASSERT_EQ(histogram.counts.size(), kHistogramBins);
  for (std::size_t bin = 0; bin < kHistogramBins; ++bin)
    EXPECT_EQ(histogram.counts[bin], bin + 1 < kHistogramBins ? 4u : 5u) << bin;  // the largest falls into the last
}

TEST(HistogramOf, EqualValuesAndNoneAreNoTrouble) {
  const Histogram equal = histogram_of(std::vector<float>(7, 0.5f));
  EXPECT_EQ(equal.low, equal.high);
  EXPECT_EQ(equal.counts[0], 7u);
  const Histogram none = histogram_of({});
  EXPECT_EQ(std::accumulate(none.counts.begin(), none.counts.end(), std::uint64_t{0}), 0u);
}

TEST(TensorRecords, HavePalettesOfWholeWeightsAndHistogramsOfWhatThePaletteIsFor) {
  const test::TempDir temp;
  test::tiny_llama().write(temp / "model");
  const auto recipe =
      quant::Recipe::parse("{defaults: {bits: 2, scaling: std}, layers: [{match: mlp, granularity: channel}]}", "r");
  const auto result = quant::quantize_model({.model = temp / "model", .output = temp / "out", .recipe = recipe});
  const auto original = model::Checkpoint::open(temp / "model");
  const auto records =
      tensor_records(result, model::Checkpoint::open(temp / "out"), original, original->architecture(), recipe);
  ASSERT_EQ(records.size(), 14u);
  for (const TensorRecord& record : records) {
    const bool per_row = record.name.find("mlp") != std::string::npos;
    EXPECT_EQ(record.palette.size(), per_row ? 0u : 4u) << record.name;
    EXPECT_TRUE(std::is_sorted(record.palette.begin(), record.palette.end()));
    ASSERT_TRUE(record.histogram);
    EXPECT_EQ(std::accumulate(record.histogram->counts.begin(), record.histogram->counts.end(), std::uint64_t{0}),
              record.weights);
    // Divided by their rows' deviations, so of the order of 1: the weights themselves are far smaller.
    if (!per_row) {
      EXPECT_GT(record.histogram->high, record.palette.back()) << record.name;
      EXPECT_LT(record.histogram->low, record.palette.front());
    }
  }
}

}  // namespace
}  // namespace nibble::eval
