#include <gmock/gmock.h>

#include <set>
#include <string>

#include "tests/cli/nibble.h"
#include "tests/support/compare.h"

namespace nibble::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Inspect, JsonHasTheArchitectureAndATensorEach) {
  const auto result = nibble_json({"inspect", kGpt2Demo});
  EXPECT_EQ(result["architecture"]["family"], "gpt2");
  EXPECT_EQ(result["recipe"], nullptr);
  std::uint64_t bytes = 0;
  for (const auto& tensor : result["tensors"]) bytes += tensor["bytes"].get<std::uint64_t>();
  EXPECT_EQ(result["bytes"], bytes);
}

// A sample of a few kilobytes: brotli and lzma are slow under sanitizers.
TEST(InspectCompress, JsonHasEveryCodecAndTransformOfCodesScalesAndWeights) {
  const TempDir directory;
  const std::string quantized = directory / "quantized";
  ASSERT_EQ(nibble({"quantize", kGpt2Demo, "--preset", "int4-block", "-q", "-o", quantized}).exit_code, 0);
  const auto result = nibble_json({"inspect", quantized, "--compress", "--sample", "1000", "--quiet"});
  EXPECT_EQ(result["sample_bytes"], 1000);
  std::set<std::string> streams;
  for (const auto& study : result["storage_study"]) {
    streams.insert(study["stream"].get<std::string>());
    EXPECT_LE(study["bytes"], 1000);
    EXPECT_GT(study["entropy_bits_per_value"], 0.0);
    std::set<std::string> codecs, transforms;
    for (const auto& run : study["results"]) {
      codecs.insert(run["codec"].get<std::string>());
      transforms.insert(run["transform"].get<std::string>());
      EXPECT_TRUE(
          near(run["ratio"].get<double>() * run["bytes"].get<double>(), study["bytes"].get<double>(), {.rel = 1e-12}));
    }
    std::set<std::string> expected = {"zlib 6",  "bzip2 9",   "lzma 6", "zstd 3",
                                      "zstd 19", "brotli 11", "rANS",   "simple8b"};
    if (study["bits"] == 16) expected.insert("gorilla");
    EXPECT_EQ(codecs, expected);
    // Four steps, under three layouts for compressors of bytes and under none for codes of values.
    EXPECT_EQ(transforms.size(), 16u);
    EXPECT_TRUE(transforms.contains("delta+zigzag, bit planes"));
  }
  EXPECT_EQ(streams, (std::set<std::string>{"block scales, F16", "codes, 4 bits", "weights, F16"}));
  // What a report reads.
  write_file(directory / "storage.json", result.dump());
  const ProgramRun report = nibble({"report", directory / "storage.json", "-o", directory / "report.md"});
  ASSERT_EQ(report.exit_code, 0) << report.err;
  EXPECT_THAT(read_file(directory / "report.md"), AllOf(HasSubstr("## Storage"), HasSubstr("codes, 4 bits")));
}

TEST(InspectCompress, TextIsATableForEachKindOfNumber) {
  const ProgramRun run = nibble({"inspect", kGpt2Demo, "--compress", "--sample", "2K", "--quiet"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("weights, F16"), HasSubstr("entropy"), HasSubstr("gorilla"),
                             HasSubstr("every round trip verified"), Not(HasSubstr("nan"))));
}

TEST(Inspect, MakesTheDirectoriesOfItsGraph) {
  const TempDir temp;
  const std::string graph = temp / "new/graph.dot";
  EXPECT_EQ(nibble({"inspect", kGpt2Demo, "--graph", graph}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(graph));
}

TEST(Inspect, OptionsThatChangeNothingAreRefused) {
  const auto error_of = [](const char* option, const char* value, const char* other) {
    const ProgramRun run = nibble({"inspect", kGpt2Demo, option, value, other});
    EXPECT_EQ(run.exit_code, 2) << run.err;
    return run.err;
  };
  EXPECT_THAT(error_of("--graph", "build/no.svg", "--threads=1"), HasSubstr("--threads means nothing beside --graph"));
  EXPECT_THAT(error_of("--graph", "build/no.svg", "-q"), HasSubstr("--quiet means nothing beside --graph"));
  EXPECT_THAT(error_of("--sample=2K", "--compress", "--threads=1"),
              HasSubstr("--threads means nothing beside --compress"));
}

TEST(InspectCompress, MistakesAreExplained) {
  const ProgramRun alone = nibble({"inspect", kGpt2Demo, "--sample", "2K"});
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.err, HasSubstr("--compress"));
  const ProgramRun empty = nibble({"inspect", kGpt2Demo, "--compress", "--sample", "0"});
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_THAT(empty.err, HasSubstr("--sample"));
  const ProgramRun absent = nibble({"inspect", "nowhere", "--compress"});
  EXPECT_EQ(absent.exit_code, 3);
  EXPECT_THAT(absent.err, HasSubstr("nowhere"));
}

}  // namespace
}  // namespace nibble::test
