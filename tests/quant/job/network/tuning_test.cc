// `tuning` on little models: nearer to the float model than before, the same codes, kills do not change the bytes.
#include "quant/job/network/tuning.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "quant/job/quantize_model.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using test::TempDir;
namespace fs = std::filesystem;

CalibrationText text(std::size_t windows = 16) { return test::random_text(3, windows); }

class TuningTest : public testing::Test {
 protected:
  QuantizeResult quantize(const std::string& yaml, const std::string& output = "out",
                          std::optional<CalibrationText> windows = text(), const ProgressSink& progress = {},
                          std::uint64_t memory_bytes = std::uint64_t{1} << 30) {
    if (!fs::exists(dir_ / "model")) {
      test::tiny_llama().write(dir_ / "model");
      test::write_calibration(dir_ / "calib.h5", dir_ / "model");
    }
    return quantize_model({.model = dir_ / "model",
                           .output = dir_ / output,
                           .recipe = Recipe::parse(yaml, "recipe"),
                           .calibration = {dir_ / "calib.h5"},
                           .text = std::move(windows),
                           .overwrite = true,
                           .memory_bytes = memory_bytes,
                           .progress = progress});
  }
  TempDir dir_;
};

// All bytes of a part of all tensors of a checkpoint.
std::string parts_of(const fs::path& directory, const std::string& suffix) {
  const auto checkpoint = model::Checkpoint::open(directory);
  std::string all;
  for (const std::string& name : checkpoint->tensor_names()) {
    if (!name.ends_with(suffix)) continue;
    const auto data = checkpoint->tensor(name).data;
    all.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  return all;
}

// Over the windows of text() that are held out.
double held_out_divergence(const fs::path& model, const fs::path& quantized) {
  return test::divergence_between(model, quantized, text(), std::vector<std::size_t>{7, 15});
}

TEST_F(TuningTest, BringsEveryFormatNearerToTheFloatModelAndKeepsItsCodes) {
  const std::pair<const char*, const char*> formats[] = {
      {"{bits: 2, scaling: std, shifting: true}", ".palette"},
      {"{bits: 2, granularity: channel}", ".palette"},
      {"{bits: 2, granularity: channel-group, group_size: 4, palette_dtype: int8}", ".palette"},
      {"{bits: 2, cluster_dim: 2}\nlayers: [{match: down_proj, format: float16}]", ".palette"},
      {"{bits: 2, outliers_large: 0.01}", ".palette"},
      {"{format: uniform, bits: 2, zero_point: true, shifting: true}", ".block_scale"},
      {"{format: int4-block, group_size: 16}", ".block_scale"},
  };
  for (const auto& [defaults, changed] : formats) {
    SCOPED_TRACE(defaults);
    const std::string recipe = std::string("defaults: ") + defaults;
    const auto plain = quantize(recipe, "plain", std::nullopt);
    const auto tuned = quantize(recipe + "\ntuning: {epochs: 3, learning_rate: 0.01}");
    ASSERT_TRUE(tuned.tuning);
    ASSERT_EQ(tuned.tuning->held_out.size(), 4u);
    EXPECT_GT(tuned.tuning->best_epoch, 0u);
    EXPECT_LT(tuned.tuning->held_out[tuned.tuning->best_epoch], 0.98 * tuned.tuning->held_out[0]);
    EXPECT_EQ(tuned.bits_per_weight, plain.bits_per_weight);
    EXPECT_EQ(parts_of(dir_ / "out", ".codes"), parts_of(dir_ / "plain", ".codes"));
    EXPECT_NE(parts_of(dir_ / "out", changed), parts_of(dir_ / "plain", changed));
    EXPECT_NE(tuned.tensors[0].relative_weight_error, plain.tensors[0].relative_weight_error) << "measured anew";
    // What was measured while tuning is what the finished model gives.
    const double kl = held_out_divergence(dir_ / "model", dir_ / "out");
    EXPECT_TRUE(test::near(kl, tuned.tuning->held_out[tuned.tuning->best_epoch], {.abs = 1e-6, .rel = 1e-4}));
  }
}

TEST_F(TuningTest, WindowsHeldOutThatAreTrainedOnTooAreWarnedOf) {
  const std::string recipe = "defaults: {bits: 2, scaling: std}\ntuning: {epochs: 1, held_out: 4}";
  const auto fresh = quantize(recipe);
  EXPECT_EQ(fresh.tuning->repeated, 0.0);
  EXPECT_TRUE(warnings(fresh, "model").empty());
  CalibrationText repeating = text();
  std::copy_n(repeating.tokens.begin(), 20, repeating.tokens.end() - 20);  // the first window again, as the last
  const auto result = quantize(recipe, "repeating", repeating);
  EXPECT_EQ(result.tuning->repeated, 0.25);
  ASSERT_EQ(warnings(result, "model").size(), 1u);
  EXPECT_THAT(warnings(result, "model")[0], testing::HasSubstr("25 % of the tokens held out"));
}

TEST_F(TuningTest, TheLastWindowsTellWhenToStopWhereTheRecipeSaysSo) {
  const std::string recipe =
      "defaults: {bits: 2, scaling: std, shifting: true}\ntuning: {epochs: 3, learning_rate: 0.01";
  const auto tuned = quantize(recipe + ", held_out: 3}");
  const std::size_t windows = text().windows();
  ASSERT_TRUE(tuned.tuning);
  const double kl = test::divergence_between(dir_ / "model", dir_ / "out", text(),
                                             std::vector<std::size_t>{windows - 3, windows - 2, windows - 1});
  EXPECT_TRUE(test::near(kl, tuned.tuning->held_out[tuned.tuning->best_epoch], {.abs = 1e-6, .rel = 1e-4}));
  // They train nothing: what stands in them makes no other palettes.
  const auto parts = parts_of(dir_ / "out", ".palette");
  ASSERT_EQ(tuned.tuning->best_epoch, 3u) << "the last state, which does not depend on what was held out";
  CalibrationText other = text();
  for (auto token = other.tokens.end() - 3 * static_cast<std::ptrdiff_t>(other.window_tokens);
       token != other.tokens.end(); ++token)
    *token = 1;
  const auto again = quantize(recipe + ", held_out: 3}", "other", other);
  ASSERT_EQ(again.tuning->best_epoch, 3u);
  EXPECT_EQ(parts_of(dir_ / "other", ".palette"), parts);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { quantize(recipe + fmt::format(", held_out: {}}}", windows)); },
                                                 "held_out", "leaves none to train on"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { quantize(fmt::format("defaults: {{bits: 2, sequential: true}}\ntuning: {{held_out: {}}}", windows + 1)); },
      "held_out", "leaves none to train on"));
}

// `windows` of a text, and `held_out` at its end, are what a text of those alone is.
TEST_F(TuningTest, TheFirstWindowsAreTrainedOnWhereTheRecipeSaysHowMany) {
  const std::string recipe =
      "defaults: {bits: 2, scaling: std, shifting: true}\ntuning: {epochs: 2, learning_rate: 0.01";
  const std::size_t windows = text().windows();
  ASSERT_GE(windows, 12u);
  for (const std::size_t held_out : {0u, 2u}) {
    SCOPED_TRACE(held_out);
    const std::string held = held_out > 0 ? fmt::format(", held_out: {}", held_out) : "";
    const CalibrationText some = text().first_and_last(9, held_out);
    ASSERT_EQ(some.windows(), 9 + held_out);
    const auto alone = quantize(recipe + held + "}", "alone", some);
    const auto first = quantize(recipe + ", windows: 9" + held + "}", "first");
    EXPECT_EQ(first.tuning->held_out, alone.tuning->held_out);
    EXPECT_EQ(first.tuning->trained, alone.tuning->trained);
    EXPECT_EQ(parts_of(dir_ / "first", ".palette"), parts_of(dir_ / "alone", ".palette"));
    EXPECT_NE(quantize(recipe + held + "}", "all").tuning->trained, first.tuning->trained);
  }
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { quantize(recipe + fmt::format(", windows: {}, held_out: 2}}", windows - 1)); },
      fmt::format("tuning: windows: {} of a text of {} windows", windows - 1, windows), "2 are held out"));
  EXPECT_NO_THROW(quantize(recipe + fmt::format(", windows: {}, held_out: 2}}", windows - 2)));
}

constexpr const char* kRecipe =
    "defaults: {bits: 2, scaling: std, shifting: true}\ntuning: {epochs: 2, learning_rate: 0.01, batch_windows: 3}";

TEST_F(TuningTest, GivesTheSameBytesAfterAKillAndWithAnyThreadsAndMemory) {
  quantize(kRecipe, "expected");
  const auto expected = test::files_without_times(dir_ / "expected");
  struct Stop {};
  for (const double share : {0.1, 0.7, 1.0}) {
    EXPECT_THROW(quantize(kRecipe, "out", text(),
                          [&](const ProgressUpdate& at) {
                            if (at.stage == "tuning" && at.done >= share * at.total) throw Stop();
                          }),
                 Stop);
    EXPECT_FALSE(fs::exists(dir_ / "out"));
  }
  quantize(kRecipe);
  EXPECT_EQ(test::files_without_times(dir_ / "out"), expected);
  set_thread_count(1);
  quantize(kRecipe, "out", text(), {}, 1 << 10);  // hidden states in a file
  set_thread_count(0);
  EXPECT_EQ(test::files_without_times(dir_ / "out"), expected);
}

TEST_F(TuningTest, ADamagedResultOfAKilledRunIsMadeAgain) {
  quantize(kRecipe, "expected");
  struct Stop {};
  for (const char* damaged : {"{", R"({"held_out_loss": [1.0], "trained_loss": [], "best_epoch": 1})"}) {
    EXPECT_THROW(quantize(kRecipe, "out", text(),
                          [&](const ProgressUpdate& at) {
                            if (at.stage == "tuning" && at.done >= at.total) throw Stop();
                          }),
                 Stop);
    std::size_t places = 0;  // wherever the job keeps what it has: beside its shards
    for (const auto& entry : fs::recursive_directory_iterator(dir_.path()))
      if (entry.path().filename().string().find("down_proj") != std::string::npos && entry.is_regular_file()) {
        test::write_file(entry.path().parent_path() / "tuning.json", damaged);
        ++places;
      }
    EXPECT_GT(places, 0u);
    quantize(kRecipe);
    EXPECT_EQ(test::files_without_times(dir_ / "out"), test::files_without_times(dir_ / "expected"));
    fs::remove_all(dir_ / "out");
  }
}

// As a kill among the deletions of a finished run leaves it: the result is there, and some of its shards are not.
TEST_F(TuningTest, AResultWithoutAllOfItsShardsIsMadeAgain) {
  quantize(kRecipe, "expected");
  EXPECT_THROW(quantize(kRecipe, "out", text(),
                        [&](const ProgressUpdate& at) {  // so that the finished directory cannot get its name
                          if (at.stage == "tuning") test::write_file(dir_ / "out", "of somebody else");
                        }),
               InvalidArgument);
  fs::remove(dir_ / "out");
  std::size_t removed = 0;
  for (const auto& entry : fs::directory_iterator(dir_ / "out.partial/scratch"))
    if (entry.path().filename().string().ends_with(".tuned.safetensors") && removed == 0)
      removed += fs::remove(entry.path()) ? 1u : 0u;
  ASSERT_EQ(removed, 1u);
  quantize(kRecipe);
  EXPECT_EQ(test::files_without_times(dir_ / "out"), test::files_without_times(dir_ / "expected"));
}

TEST_F(TuningTest, TrainsCodesOfPalettesGridsAndBlocks) {
  for (const char* defaults : {"{bits: 2, scaling: std, sign: flip}", "{format: uniform, bits: 2, zero_point: true}",
                               "{format: uniform, bits: 2, group_size: 16}"}) {
    SCOPED_TRACE(defaults);
    const std::string recipe = std::string("defaults: ") + defaults;
    const auto plain = quantize(recipe, "plain", std::nullopt);
    const auto tuned = quantize(recipe + "\ntuning: {epochs: 6, code_travel: 0.8, train: [codes]}");
    EXPECT_GT(tuned.tuning->best_epoch, 0u);
    EXPECT_LT(tuned.tuning->held_out[tuned.tuning->best_epoch], 0.98 * tuned.tuning->held_out[0]);
    EXPECT_EQ(tuned.bits_per_weight, plain.bits_per_weight);
    EXPECT_TRUE(parts_of(dir_ / "out", ".codes") != parts_of(dir_ / "plain", ".codes"));
    for (const char* part : {".palette", ".scale", ".block_scale", ".block_zero"})
      EXPECT_EQ(parts_of(dir_ / "out", part), parts_of(dir_ / "plain", part)) << part;
    const double kl = held_out_divergence(dir_ / "model", dir_ / "out");
    EXPECT_TRUE(test::near(kl, tuned.tuning->held_out[tuned.tuning->best_epoch], {.abs = 1e-6, .rel = 1e-4}));
  }
}

TEST_F(TuningTest, WithCodesGivesTheSameBytesAfterAKillAndWithAnyThreads) {
  const std::string recipe =
      "defaults: {bits: 2, scaling: std, shifting: true}\n"
      "tuning: {epochs: 2, learning_rate: 0.01, train: [palettes, scales, biases, codes]}";
  quantize(recipe, "expected");
  const auto expected = test::files_without_times(dir_ / "expected");
  struct Stop {};
  EXPECT_THROW(quantize(recipe, "out", text(),
                        [&](const ProgressUpdate& at) {
                          if (at.stage == "tuning" && at.done >= 0.6 * at.total) throw Stop();
                        }),
               Stop);
  set_thread_count(1);
  quantize(recipe);
  set_thread_count(0);
  EXPECT_EQ(test::files_without_times(dir_ / "out"), expected);
}

TEST_F(TuningTest, KeepsWhatItHadWhereItFindsNothingBetter) {
  const std::string recipe = "defaults: {bits: 4, scaling: std, shifting: true}";
  quantize(recipe, "plain", std::nullopt);
  const auto result = quantize(recipe + "\ntuning: {epochs: 1, learning_rate: 1.0}");
  EXPECT_EQ(result.tuning->best_epoch, 0u);
  for (const char* part : {".codes", ".palette", ".scale", ".bias"})
    EXPECT_EQ(parts_of(dir_ / "out", part), parts_of(dir_ / "plain", part)) << part;
}

TEST_F(TuningTest, TrainsOnlyWhatIsListedAndOnFewWindowsToo) {
  const std::string recipe = "defaults: {bits: 2, scaling: std, shifting: true}";
  quantize(recipe, "plain", std::nullopt);
  const auto result = quantize(recipe + "\ntuning: {epochs: 2, learning_rate: 0.01, train: [biases]}", "out", text(2));
  EXPECT_LT(result.tuning->held_out[2], result.tuning->held_out[0]);
  for (const char* part : {".codes", ".palette", ".scale"})
    EXPECT_EQ(parts_of(dir_ / "out", part), parts_of(dir_ / "plain", part)) << part;
  EXPECT_NE(parts_of(dir_ / "out", ".bias"), parts_of(dir_ / "plain", ".bias"));
}

TEST_F(TuningTest, LearnsTheNextTokenAndGoesWithSequential) {
  const auto next =
      quantize("defaults: {bits: 2, shifting: true}\ntuning: {epochs: 3, learning_rate: 0.01, loss: next-token}", "out",
               text(4));
  EXPECT_LT(next.tuning->held_out[3], next.tuning->held_out[0]);
  EXPECT_GT(next.tuning->held_out[0], 2.0) << "about ln 40 for random tokens";
  const auto both = quantize("defaults: {bits: 2, sequential: true}\ntuning: {epochs: 1, learning_rate: 0.01}");
  EXPECT_LT(both.tuning->held_out[1], both.tuning->held_out[0]);
}

// What a sequential run collects on the way is gone by then; tuning needs none of it.
TEST_F(TuningTest, GoesWithSequentialAndShiftingWithoutACalibrationFile) {
  test::tiny_llama().write(dir_ / "model");
  for (const char* defaults :
       {"{bits: 2, sequential: true, shifting: true}", "{bits: 2, sequential: true, weighting: second-moment}"}) {
    SCOPED_TRACE(defaults);
    const auto result =
        quantize_model({.model = dir_ / "model",
                        .output = dir_ / "out",
                        .recipe = Recipe::parse(
                            fmt::format("defaults: {}\ntuning: {{epochs: 1, learning_rate: 0.01}}", defaults), "r"),
                        .text = text(),
                        .overwrite = true,
                        .progress = {}});
    EXPECT_EQ(result.tuning->held_out.size(), 2u);
    EXPECT_FALSE(result.tensors[0].output_error) << "of which nothing is known";
  }
}

// Most batches have no token for the last expert of each block.
TEST_F(TuningTest, TrainsMixturesWhoseBatchesMissAnExpert) {
  test::tiny_mixtral().write(dir_ / "model");
  test::write_calibration(dir_ / "calib.h5", dir_ / "model");
  CalibrationText windows = text();
  for (std::size_t t = 20; t < windows.tokens.size(); ++t)
    if (windows.tokens[t] == test::kRareToken) ++windows.tokens[t];
  windows.tokens[5] = test::kRareToken;
  const auto result = quantize(
      "defaults: {bits: 2, scaling: std, shifting: true}\n"
      "tuning: {epochs: 2, learning_rate: 0.003, batch_windows: 3}",
      "out", windows);
  EXPECT_GT(result.tuning->best_epoch, 0u);
  EXPECT_LT(result.tuning->held_out[result.tuning->best_epoch], result.tuning->held_out[0]);
}

TEST_F(TuningTest, RefusesWhatItCannotDoBeforeAnyWork) {
  const auto refused = [&](const std::string& yaml, std::optional<CalibrationText> windows, std::string_view words) {
    return test::throws_with<InvalidArgument>([&] { quantize(yaml, "out", std::move(windows)); }, words);
  };
  const std::string palette = "defaults: {bits: 2}\n";
  EXPECT_TRUE(refused(palette + "tuning: {epochs: 1}", std::nullopt, "give --text FILE"));
  EXPECT_TRUE(
      refused(palette + "tuning: {epochs: 1, train: [biases]}", text(), "no quantized layer of the blocks has"));
  EXPECT_TRUE(refused("defaults: {format: float16}\ntuning: {epochs: 1}", text(), "nothing to train"));
  EXPECT_TRUE(refused("defaults: {format: int4-block}\ntuning: {train: [palettes]}", text(),
                      "no quantized layer of the blocks has a palette of its own"));
  EXPECT_TRUE(refused("defaults: {format: block-palette, palette: fp4, block_scale: e8m0}\ntuning: {epochs: 1}", text(),
                      "has a palette of its own or scales in float16 or a bias that shifting makes"));
  EXPECT_TRUE(refused(palette + "tuning: {train: [scales, biases]}", text(),
                      "has scales in float16 or a bias that shifting makes"));
  EXPECT_TRUE(refused(palette + "tuning: {epoch: 1}", text(), "did you mean 'epochs'"));
  EXPECT_TRUE(refused(palette + "tuning: {loss: mse}", text(), "expected kl, next-token"));
  EXPECT_TRUE(refused(palette + "tuning: {train: [code]}", text(), "expected palettes, scales, biases, codes"));
  EXPECT_TRUE(refused(palette + "tuning: {code_travel: 2}", text(), "does not name codes"));
  EXPECT_TRUE(refused(palette + "tuning: {code_travel: -1, train: [codes]}", text(), "code_travel"));
  EXPECT_TRUE(refused("defaults: {bits: 2, window_bits: 6}\ntuning: {train: [codes]}", text(), "leave codes out"));
  EXPECT_TRUE(refused(palette + "tuning: {train: [scales, scales]}", text(), "listed twice"));
  EXPECT_TRUE(refused(palette + "tuning: {batch_windows: 0}", text(), "at least 1"));
  auto odd = text();
  odd.tokens.pop_back();
  EXPECT_TRUE(refused(palette + "tuning: {epochs: 1}", odd, "no whole number of windows"));
  auto unknown = text();
  unknown.tokens[5] = 40;
  EXPECT_TRUE(refused(palette + "tuning: {epochs: 1}", unknown, "token 40"));
  EXPECT_TRUE(refused(palette + "tuning: {epochs: 0}", text(), "which it does not have"));
  EXPECT_FALSE(fs::exists(dir_ / "out.partial"));
}

// Of three layers in one tensor, some are shifted: the others' parts of the bias are not stored, and must not be
// trained.
TEST_F(TuningTest, TrainsNoBiasOfALayerThatIsNotShifted) {
  test::tiny_gpt2().write(dir_ / "model");
  test::write_calibration(dir_ / "calib.h5", dir_ / "model");
  for (const char* rule : {"shifting: false", "format: float16"}) {
    const auto result =
        quantize(fmt::format("defaults: {{bits: 2, granularity: channel, shifting: true}}\n"
                             "layers: [{{match: 'c_attn\\.v\\.', {}}}]\n"
                             "tuning: {{epochs: 4, held_out: 2, train: [biases], learning_rate: 0.02}}",
                             rule));
    ASSERT_TRUE(result.tuning);
    EXPECT_GT(result.tuning->best_epoch, 0u) << rule;
    const std::size_t all = text().windows();
    const double measured =
        test::divergence_between(dir_ / "model", dir_ / "out", text(), std::vector{all - 2, all - 1});
    // What was trained is what is stored: sums of floats in another order apart.
    EXPECT_TRUE(test::near(measured, result.tuning->held_out[result.tuning->best_epoch], {.abs = 1e-6, .rel = 1e-4}))
        << rule;
  }
}

TEST_F(TuningTest, WindowsBeyondLearnedPositionsAreRefusedBeforeAnyWork) {
  test::tiny_gpt2().write(dir_ / "model");
  test::write_calibration(dir_ / "calib.h5", dir_ / "model");
  auto windows = text();
  windows.window_tokens = 32;  // the model has 24 positions
  for (const char* recipe : {"tuning: {epochs: 1}", "defaults: {sequential: true, solver: gptq}"})
    EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { quantize(recipe, "out", windows); },
                                                   "windows of 32 tokens, but the model has learned 24 positions"));
  EXPECT_FALSE(fs::exists(dir_ / "out.partial"));
}

}  // namespace
}  // namespace nibble::quant
