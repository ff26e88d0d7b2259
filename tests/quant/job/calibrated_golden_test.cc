// Perplexities of ../shared/golden/baselines.md that build on calibration: one cell of every kind, on llama-novels.
#include <gtest/gtest.h>

#include <string>

#include "calib/collect/collector.h"
#include "datasets/calibration_windows.h"
#include "datasets/token_file.h"
#include "eval/quality/perplexity.h"
#include "quant/job/quantize_model.h"
#include "quant/store/load_model.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/sanitizers.h"

namespace nibble::quant {
namespace {

constexpr const char* kModel = "models/llama-novels";
constexpr const char* kCalibrationTokens = "golden/windows/calibration-64x512.u16";
constexpr const char* kTestTokens = "golden/windows/test-78x512.u16";

// Writes the statistics of the calibration windows.
void calibrate(const std::filesystem::path& file) {
  const LoadedModel model = load_model(test::shared_path(kModel));
  const auto windows =
      datasets::fixed_calibration_windows(test::shared_path(kCalibrationTokens), model.architecture.vocabulary, 512, 0);
  calib::calibrate({.model = *model.transformer,
                    .tokens = windows.tokens,
                    .settings = {.model_hash = model.checkpoint->fingerprint(),
                                 .tokenizer_hash = "none",
                                 .text_hash = windows.fingerprint,
                                 .sampling = "consecutive windows",
                                 .window_tokens = windows.length,
                                 .seeds = {0},
                                 .collected = calib::parse_statistic_set("activations,fisher,hessian")},
                    .output = file});
}

struct Cell {
  const char* defaults;
  double perplexity;
};

// One test, for which the text is calibrated once.
TEST(CalibratedBaselines, AreWithin0Point3PercentOrBelow) {
  NIBBLE_NEEDS_SHARED(kTestTokens);
  if (test::kAddressSanitizer) GTEST_SKIP() << "calibrating and evaluating 70,000 tokens: the release build does it";
  const test::TempDir dir;
  calibrate(dir / "calib.h5");
  const Cell cells[] = {
      // The published method; by the objective's own weights; SqueezeLLM's rows; GPTQ; GPTQ with one palette.
      {"{bits: 3, weighting: fisher, weighting_scale: plain, scaling: std, sign: flip, shifting: true}", 84.9935},
      {"{bits: 2, weighting: fisher, scaling: std, shifting: true}", 91.5791},
      {"{bits: 3, granularity: channel, weighting: fisher}", 84.6954},
      {"{bits: 3, format: uniform, zero_point: true, solver: gptq}", 84.4680},
      {"{bits: 3, weighting: fisher, scaling: std, shifting: true, solver: gptq, hessian: centred}", 84.1864},
  };
  for (const Cell& cell : cells) {
    SCOPED_TRACE(cell.defaults);
    quantize_model({.model = test::shared_path(kModel),
                    .output = dir / "out",
                    .recipe = Recipe::parse("defaults: " + std::string(cell.defaults), "recipe"),
                    .calibration = {dir / "calib.h5"},
                    .overwrite = true,
                    .progress = {}});
    const auto loaded = load_model(dir / "out");
    const auto tokens = datasets::read_token_file(test::shared_path(kTestTokens), loaded.architecture.vocabulary);
    eval::PerplexityOptions options;
    options.protocol = datasets::Protocol::kBlocks;
    options.context = 512;
    const double actual = eval::perplexity(*loaded.transformer, tokens, options).perplexity;
    // 0.3 %: float16 against float32 palettes and scales.
    EXPECT_LE(actual, cell.perplexity * 1.003);
    EXPECT_GE(actual, cell.perplexity * 0.99) << "so much better than the same method elsewhere?";
  }
}

}  // namespace
}  // namespace nibble::quant
