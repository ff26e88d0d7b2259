#include <gmock/gmock.h>

#include <set>
#include <string>
#include <vector>

#include "tests/cli/nibble.h"

namespace nibble::test {
namespace {

using testing::HasSubstr;

TEST(CompareLogitsProgram, EveryCacheAgreesOnADemoModel) {
  const auto result =
      nibble_json({"compare-logits", kLlamaDemo, "--text", kEvalText, "--max-tokens", "70", "--chunk", "1,4,64"});
  EXPECT_TRUE(result["agrees"]);
  EXPECT_EQ(result["tokens"], 70);
  std::set<std::string> caches, chunks;
  for (const auto& run : result["runs"]) {
    EXPECT_TRUE(run["agrees"]) << run;
    EXPECT_EQ(run["difference_by_position"].size(), 70);
    EXPECT_LE(run["largest_difference"], 1e-4);  // protocols.md
    caches.insert(run["cache"]);
    chunks.insert(run["chunk"]);
  }
  EXPECT_EQ(caches, (std::set<std::string>{"none", "io", "state", "window"}));
  EXPECT_EQ(chunks, (std::set<std::string>{"1", "4", "64", "all", "mixed"}));
}

// One token at a time goes through the kernels, one prompt of 70 through the matrix library.
TEST(CompareLogitsProgram, PackedProductsAgreeToo) {
  const TempDir temp;
  ASSERT_EQ(nibble({"quantize", kLlamaDemo, "--set", "granularity=channel", "-o", temp / "q"}).exit_code, 0);
  const auto result = nibble_json({"compare-logits", temp / "q", "--text", kEvalText, "--max-tokens", "70", "--chunk",
                                   "1,4", "--cache", "state", "--compute", "exact"});
  EXPECT_TRUE(result["agrees"]);
  EXPECT_EQ(result["compute"], "exact");
}

TEST(CompareLogitsProgram, MeasuresWhatNeedNotBeExact) {
  const ProgramRun run =
      nibble({"compare-logits", kLlamaDemo, "--text", kEvalText, "--max-tokens", "40", "--cache", "state,window",
              "--cache-type", "f16,int8", "--window-chunk", "4", "--window-context", "16", "--chunk", "3"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("window int8"));
  EXPECT_THAT(run.out, HasSubstr("not exact"));
}

// A chunk that does not divide the context makes a window slide before its positions are all taken.
TEST(CompareLogitsProgram, AWindowThatSlidesByItsChunksNeedNotBeExact) {
  const ProgramRun run = nibble({"compare-logits", kLlamaDemo, "--text", kEvalText, "--max-tokens", "100", "--cache",
                                 "window", "--window-chunk", "48", "--window-context", "100", "--chunk", "48"});
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_THAT(run.out, HasSubstr("not exact"));
}

TEST(CompareLogitsProgram, ADifferenceBeyondTheToleranceIsExitCode4) {
  const ProgramRun run = nibble({"compare-logits", kLlamaDemo, "--text", kEvalText, "--max-tokens", "40", "--cache",
                                 "state", "--chunk", "1", "--tolerance", "0"});
  EXPECT_EQ(run.exit_code, 4);
  EXPECT_THAT(run.out, HasSubstr("DIFFERS"));
  EXPECT_THAT(run.err, HasSubstr("differ from one prompt by more than 0"));
}

TEST(CompareLogitsProgram, WrongUsageIsExplained) {
  const auto error_of = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"compare-logits", kLlamaDemo, "--text", kEvalText});
    const ProgramRun run = nibble(options);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    return run.err;
  };
  EXPECT_THAT(error_of({"--cache", "stat"}), HasSubstr("did you mean 'state'?"));
  EXPECT_THAT(error_of({"--chunk", "1,0"}), HasSubstr("--chunk"));
  EXPECT_THAT(error_of({"--chunk", "1,x"}), HasSubstr("got 'x'"));
  EXPECT_THAT(error_of({"--cache", "none", "--cache-type", "f16"}), HasSubstr("f32 only"));
  EXPECT_THAT(error_of({"--cache", "window", "--window-chunk", "9", "--window-context", "9"}), HasSubstr("9 of 9"));
  EXPECT_THAT(error_of({"--cache", "none,state", "--cache-type", "f16"}),
              HasSubstr("add f32 to --cache-type, got f16"));
}

}  // namespace
}  // namespace nibble::test
