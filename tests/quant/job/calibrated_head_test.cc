// Head and embedding under statistics of their own: which Hessian reaches them, what is refused, what is counted.
#include <gtest/gtest.h>

#include "calib/collect/collector.h"
#include "calib/stats/derived.h"
#include "core/error.h"
#include "quant/algo/blocks/grid_columns.h"
#include "quant/algo/solve/error_feedback.h"
#include "quant/job/recipe_needs.h"
#include "quant/job/statistics/calibrate_model.h"
#include "quant/store/load_model.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using test::quantize;
using test::TempDir;
namespace fs = std::filesystem;

// nibble calibrate --head, on made-up tokens.
void calibrate_with_head(const fs::path& model, const fs::path& output, bool head = true) {
  datasets::CalibrationWindows windows;
  windows.length = 20;
  windows.fingerprint = "text";
  for (int i = 0; i < 20 * 6; ++i) windows.tokens.push_back(static_cast<TokenId>((i * 7 + i / 5) % 40));
  const LoadedModel loaded = load_model(model);
  CalibrationSource source;
  source.tokens = "tokens.u16";
  CalibrateOptions options;
  options.collect = calib::kEverything;
  options.head = head;
  calib::calibrate(calibration_job(loaded, nullptr, source, windows, options, output));
}

model::Parameter head_of(const fs::path& model) { return test::config_of(model).head.linear; }

TEST(Head, TiedOrNotItIsSolvedUnderItsOwnHessian) {
  for (const bool tied : {true, false}) {
    const TempDir dir;
    (tied ? test::tiny_gpt2() : test::tiny_llama()).write(dir / "model");
    calibrate_with_head(dir / "model", dir / "calib.h5");
    const auto result = quantize(
        dir / "model", dir / "out",
        fmt::format("defaults: {{format: float16}}\n"
                    "layers:\n"
                    "  - {{match: '{}', format: uniform, zero_point: true, bits: 3, group_size: 0, solver: gptq, "
                    "hessian: guided, act_order: false, damping: 0.02}}\n",
                    tied ? "wte" : "lm_head"),
        {dir / "calib.h5"});
    const model::Parameter head = head_of(dir / "model");
    const Matrix<float> w = test::weight_of(dir / "model", head);
    const auto sums = calib::hessian(calib::StatsFile::open(dir / "calib.h5")->read("lm_head"), HessianKind::kGuided);
    Matrix<float> h(sums.rows(), sums.cols());
    for (std::size_t i = 0; i < h.size(); ++i) h.data()[i] = static_cast<float>(sums.data()[i]);
    GridRounding grid(w, {.bits = 3, .block = 0, .scale = BlockScale::kMinmax}, true);
    const auto factor = factor_hessian<float>(h.view(), {.damping = 0.02, .act_order = false});
    const auto codes = round_with_feedback<std::uint8_t>(w, factor, grid).codes;
    Matrix<float> expected(w.rows(), w.cols());
    for (std::size_t i = 0; i < w.rows(); ++i)
      for (std::size_t j = 0; j < w.cols(); ++j) grid.decode(j, i, {&codes(i, j), 1}, &expected(i, j));
    EXPECT_TRUE(test::same_bits(test::weight_of(dir / "out", head).values(), expected.values())) << tied;
    const auto made = std::find_if(result.tensors.begin(), result.tensors.end(),
                                   [&](const auto& t) { return t.name == (tied ? "wte" : "lm_head"); });
    ASSERT_NE(made, result.tensors.end());
    EXPECT_TRUE(made->output_error.has_value()) << "measured under its Hessian";
    // What it saves shows in the bits of the whole model, and only there.
    const auto plain = quantize(dir / "model", dir / "plain",
                                "defaults: {format: float16}\nlayers: [{match: 'wte|lm_head', format: float16}]", {});
    double parameters = 0.0;
    const auto checkpoint = model::Checkpoint::open(dir / "model");
    for (const std::string& name : checkpoint->tensor_names())
      parameters += static_cast<double>(checkpoint->tensor(name).element_count());
    const double saved = 16.0 * static_cast<double>(w.size()) - static_cast<double>(made->stored_bits);
    EXPECT_TRUE(
        test::near(plain.model_bits_per_weight - result.model_bits_per_weight, saved / parameters, {.abs = 1e-12}));
    EXPECT_EQ(plain.bits_per_weight, result.bits_per_weight);
    EXPECT_NO_THROW(test::logits_of_model(dir / "out"));
  }
}

TEST(Head, IsCollectedWhereARuleNeedsIt) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  const auto checkpoint = model::Checkpoint::open(dir / "model");
  const auto needs = [&](const std::string& yaml) {
    return needs_head(make_plan(checkpoint, checkpoint->architecture(), Recipe::parse(yaml, "recipe")));
  };
  EXPECT_FALSE(needs("defaults: {solver: gptq}"));
  EXPECT_FALSE(needs("defaults: {solver: gptq}\nlayers: [{match: wte, solver: nearest}]"));
  EXPECT_TRUE(needs("defaults: {bits: 4}\nlayers: [{match: wte, solver: gptq}]"));
  EXPECT_TRUE(needs("defaults: {bits: 4}\nlayers: [{match: wte, weighting: fisher}]"));
}

TEST(Head, SequentialTakesItsStatisticsFromTheFile) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  const std::string recipe = "defaults: {bits: 3, solver: gptq, sequential: true}\nlayers: [{match: lm_head, bits: 4}]";
  calibrate_with_head(dir / "model", dir / "calib.h5");
  calibrate_with_head(dir / "model", dir / "blocks.h5", false);
  CalibrationText text{.tokens = {}, .window_tokens = 20, .fingerprint = "text"};
  for (int i = 0; i < 20 * 6; ++i) text.tokens.push_back(static_cast<TokenId>(i * 3 % 40));
  const auto run = [&](const char* file) {
    return quantize_model({.model = dir / "model",
                           .output = dir / "out",
                           .recipe = Recipe::parse(recipe, "recipe"),
                           .calibration = {dir / file},
                           .text = text,
                           .progress = {}});
  };
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { run("blocks.h5"); }, "--head"));
  EXPECT_NO_THROW(run("calib.h5"));
}

TEST(Head, AnEmbeddingThatIsOnlyLookedUpHasNoStatistics) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  calibrate_with_head(dir / "model", dir / "calib.h5");
  const auto refused = [&](const std::string& rule) {
    return test::throws_with<InvalidArgument>(
        [&] {
          quantize(dir / "model", dir / "out", fmt::format("defaults: {{bits: 4}}\nlayers: [{{{}}}]", rule),
                   {dir / "calib.h5"});
        },
        "not of an embedding that is only looked up");
  };
  EXPECT_TRUE(refused("match: embed_tokens, solver: gptq"));
  EXPECT_TRUE(refused("match: embed_tokens, weighting: fisher"));
  EXPECT_NO_THROW(quantize(dir / "model", dir / "out", "defaults: {bits: 4}\nlayers: [{match: embed_tokens, bits: 3}]",
                           {dir / "calib.h5"}));
}

TEST(Head, GoesWithBestLinearsInOneRecipe) {
  for (const bool tied : {true, false}) {
    const TempDir dir;
    (tied ? test::tiny_gpt2() : test::tiny_llama()).write(dir / "model");
    calibrate_with_head(dir / "model", dir / "calib.h5");
    const std::string best(Recipe::preset_text("best-one-shot"));
    const auto result =
        quantize(dir / "model", dir / "out",
                 best +
                     "layers:\n"
                     "  - {match: 'wte|lm_head', bits: 3, shifting: false, hessian: guided, output_hessian: false}\n"
                     "  - {match: 'embed_tokens', solver: nearest, weighting: none, "
                     "shifting: false}\n",
                 {dir / "calib.h5"});
    for (const char* name : {"wte", "lm_head", "model.embed_tokens"}) {
      if (tied != (std::string_view(name) == "wte")) continue;
      const auto made =
          std::find_if(result.tensors.begin(), result.tensors.end(), [&](const auto& t) { return t.name == name; });
      ASSERT_NE(made, result.tensors.end()) << name;
      EXPECT_EQ(made->damping.has_value(), std::string_view(name) != "model.embed_tokens") << name;
    }
    EXPECT_NO_THROW(test::logits_of_model(dir / "out"));
  }
}

}  // namespace
}  // namespace nibble::quant
