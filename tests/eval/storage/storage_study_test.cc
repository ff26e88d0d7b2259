#include "eval/storage/storage_study.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "quant/job/quantize_model.h"
#include "quant/recipe/recipe.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

using test::TempDir;

class StorageStudyTest : public testing::Test {
 protected:
  std::filesystem::path quantized(const std::string& settings) {
    test::tiny_gpt2(test::f16_tensor).write(directory_ / "float");
    quant::quantize_model({.model = directory_ / "float",
                           .output = directory_ / "quantized",
                           .recipe = quant::Recipe::parse("defaults: " + settings, "test"),
                           .progress = {}});
    return directory_ / "quantized";
  }
  TempDir directory_;
};

TEST_F(StorageStudyTest, FindsEveryKindOfNumberInAQuantizedModel) {
  const auto streams =
      collect_value_streams(quantized("{format: int4-block, int4_scale: minmax, zero_point: true}"), 1 << 20);
  std::set<std::string> names;
  for (const ValueStream& stream : streams) names.insert(stream.name);
  EXPECT_EQ(names, (std::set<std::string>{"block scales, F16", "block zeros, U8", "codes, 4 bits", "weights, F16"}));
}

TEST_F(StorageStudyTest, TakesEverythingWhereTheSampleIsLargeEnough) {
  for (const ValueStream& stream : collect_value_streams(quantized("{bits: 3}"), 1 << 20)) {
    EXPECT_EQ(stream.patterns.values.size(), stream.values_in_model) << stream.name;
    std::size_t next = 0;
    for (const RowSpan& row : stream.rows) {
      EXPECT_EQ(row.begin, next);
      next += row.size;
    }
    EXPECT_EQ(next, stream.patterns.values.size());
  }
}

TEST_F(StorageStudyTest, KeepsToItsSampleSize) {
  for (const ValueStream& stream : collect_value_streams(quantized("{bits: 3}"), 1000)) {
    EXPECT_GT(stream.values_in_model * stream.patterns.width, 8000u) << stream.name;
    EXPECT_LE(stream.patterns.values.size() * stream.patterns.width, 8000u) << stream.name;
    EXPECT_GT(stream.patterns.values.size(), 0u) << stream.name;
  }
}

TEST_F(StorageStudyTest, ASmallSampleHoldsSomethingOfEveryKind) {
  const std::filesystem::path model = quantized("{bits: 3}");
  const std::size_t kinds = collect_value_streams(model, 1 << 20).size();
  for (const std::uint64_t bytes :
       std::initializer_list<std::uint64_t>{100, 150, 250, 400, 900})  // rows of its weights have 128 bytes at most
    EXPECT_EQ(collect_value_streams(model, bytes).size(), kinds) << bytes;
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { collect_value_streams(model, 1); }, "less than one row"));
}

TEST_F(StorageStudyTest, MeasuresEveryCodecUnderEveryTransform) {
  const auto studies = study_storage(quantized("{bits: 4}"), {.sample_bytes = 4096});
  ASSERT_EQ(studies.size(), 2u);
  const StreamStudy& codes = studies[0];
  EXPECT_EQ(codes.stream, "codes, 4 bits");
  // 6 general compressors x 3 layouts x 4 steps, rANS and simple8b x 4 steps; and Gorilla for floats.
  EXPECT_EQ(codes.results.size(), 80u);
  EXPECT_EQ(studies[1].stream, "weights, F16");
  EXPECT_EQ(studies[1].results.size(), 84u);
  for (const StreamStudy& study : studies)
    for (const CompressionResult& result : study.results) {
      EXPECT_GT(result.bytes, 0u) << result.codec;
      EXPECT_TRUE(test::near(result.ratio * static_cast<double>(result.bytes), static_cast<double>(study.bytes),
                             {.rel = 1e-12}));
      EXPECT_GT(result.compress_megabytes_per_second, 0.0);
      EXPECT_GT(result.decompress_megabytes_per_second, 0.0);
    }
}

// Where a limit is set on it, one of Linux's two clocks of processor time goes by ticks, in which much is done.
TEST_F(StorageStudyTest, MeasuresRatesUnderALimitOfProcessorTime) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_CPU, &before), 0);
  rlimit limited = before;
  limited.rlim_cur = std::min<rlim_t>(before.rlim_max, 1'000'000);
  ASSERT_EQ(setrlimit(RLIMIT_CPU, &limited), 0);
  const auto studies = study_storage(quantized("{bits: 4}"), {.sample_bytes = 4096});
  ASSERT_EQ(setrlimit(RLIMIT_CPU, &before), 0);
  for (const StreamStudy& study : studies)
    for (const CompressionResult& result : study.results) {
      constexpr double kCopying = 1e5;  // MB/s: more than a core copies
      EXPECT_LT(result.compress_megabytes_per_second, kCopying) << result.codec;
      EXPECT_LT(result.decompress_megabytes_per_second, kCopying) << result.codec;
    }
}

TEST_F(StorageStudyTest, RefusesAnEmptySampleAndAMissingModel) {
  EXPECT_TRUE(test::throws_with<InvalidArgument>([] { collect_value_streams("nowhere", 0); }, "0 bytes"));
  EXPECT_TRUE(
      test::throws_with<InvalidArgument>([] { collect_value_streams("nowhere", 1ull << 40); }, "expected 1 to"));
  EXPECT_TRUE(test::throws_with<FormatError>([] { collect_value_streams("nowhere", 1); }, "nowhere"));
}

}  // namespace
}  // namespace nibble::eval
