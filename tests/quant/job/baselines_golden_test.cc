// Perplexities of ../shared/golden/baselines.md that need no calibration, and the demo models from end to end.
#include <gtest/gtest.h>

#include <string>

#include "datasets/token_file.h"
#include "eval/quality/perplexity.h"
#include "quant/job/quantize_model.h"
#include "quant/store/load_model.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/sanitizers.h"

namespace nibble::quant {
namespace {

struct Baseline {
  const char* name;
  const char* section;
  double gpt2_perplexity, llama_perplexity;
};

void PrintTo(const Baseline& baseline, std::ostream* out) { *out << baseline.name; }

class Baselines : public testing::TestWithParam<std::tuple<Baseline, bool>> {};

TEST_P(Baselines, AreWithin0Point3Percent) {
  NIBBLE_NEEDS_SHARED("golden/windows/test-78x512.u16");
  const auto& [baseline, llama] = GetParam();
  if (test::kAddressSanitizer) GTEST_SKIP() << "evaluating 40,000 tokens: the release build does it";
  const auto model = test::shared_path(llama ? "models/llama-novels" : "models/gpt2-novels");
  const test::TempDir dir;
  quantize_model({.model = model,
                  .output = dir / "out",
                  .recipe = Recipe::parse("defaults: " + std::string(baseline.section), "recipe"),
                  .overwrite = false,
                  .progress = {}});
  const auto loaded = load_model(dir / "out");
  auto tokens =
      datasets::read_token_file(test::shared_path("golden/windows/test-78x512.u16"), loaded.architecture.vocabulary);
  eval::PerplexityOptions options;
  options.protocol = datasets::Protocol::kBlocks;
  options.context = 512;
  const double expected = llama ? baseline.llama_perplexity : baseline.gpt2_perplexity;
  const double actual = eval::perplexity(*loaded.transformer, tokens, options).perplexity;
  // 0.3 %: float16 against float32 palettes, and an optimum that need not be the very same.
  EXPECT_TRUE(test::near(actual, expected, {.rel = 0.003}));
  RecordProperty("perplexity", std::to_string(actual));
  RecordProperty("relative_difference", std::to_string(actual / expected - 1.0));
  RecordProperty("bits_per_weight", std::to_string(loaded.bits_per_weight));
}

constexpr Baseline kBaselines[] = {
    {"palette4tensor", "{bits: 4}", 118.5166, 84.4414},
    {"palette3tensor", "{bits: 3}", 123.8865, 87.3643},
    {"palette2tensor", "{bits: 2}", 139.2208, 98.8141},
    {"palette4row", "{bits: 4, granularity: channel}", 117.1567, 83.9953},
    {"palette3row", "{bits: 3, granularity: channel}", 118.1194, 84.7866},
    {"palette2row", "{bits: 2, granularity: channel}", 125.4696, 89.5347},
    {"q40", "{format: int4-block}", 117.3005, 84.0694},
    {"q41", "{format: int4-block, int4_scale: minmax, zero_point: true}", 117.1648, 83.9730},
};

INSTANTIATE_TEST_SUITE_P(OfTheSharedModels, Baselines, testing::Combine(testing::ValuesIn(kBaselines), testing::Bool()),
                         [](const auto& cell) {
                           return std::string(std::get<1>(cell.param) ? "llama_" : "gpt2_") +
                                  std::get<0>(cell.param).name;
                         });

}  // namespace
}  // namespace nibble::quant
