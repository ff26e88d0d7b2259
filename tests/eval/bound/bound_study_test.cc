#include "eval/bound/bound_study.h"

#include <cmath>

#include "core/error.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::test {
namespace {

using eval::LayerModel;
using eval::Method;
using eval::MethodBound;

Method preset(const std::string& name, std::initializer_list<std::string_view> assignments = {}) {
  Method method{name, quant::Recipe::preset(name)};
  for (const std::string_view assignment : assignments) method.recipe.apply_set(assignment);
  return method;
}

constexpr LayerModel kWhite{
    .rows = 256, .columns = 256, .tail = 0, .input_power = 0.0, .output_power = 0.0, .spread = 0.0};
constexpr LayerModel kSmall{.rows = 64, .columns = 96};

TEST(BoundStudy, GivesTheErrorsOfMaxsQuantizersOnNormalWeights) {
  const std::vector<Method> methods = {preset("palette", {"bits=2"}), preset("palette", {"bits=3"}),
                                       preset("palette", {"bits=4"})};
  const auto results = eval::study_bound(kWhite, methods, {.layers = 2});
  // Max, Quantizing for minimum distortion (1960), Table I. Of 131,072 weights: a sample's errors scatter by some 0.5
  // %.
  const double expected[] = {0.1175, 0.03454, 0.009497};
  for (std::size_t m = 0; m < 3; ++m) {
    EXPECT_TRUE(near(results[m].error.mean, expected[m], {.rel = 0.02})) << m;
    // The palette in float16 is all there is beside codes.
    const double bits = static_cast<double>(m + 2), palette = 16.0 * std::exp2(bits) / 65536.0;
    EXPECT_TRUE(near(results[m].bits_per_weight, bits + palette, {.rel = 1e-12}));
    // White normal values of variance 1: D = 2^(-2R); the layers' own power is 1 within a percent.
    EXPECT_TRUE(near(results[m].bound, std::exp2(-2.0 * results[m].bits_per_weight), {.rel = 0.02})) << m;
    EXPECT_TRUE(
        near(results[m].decibels.mean, 10.0 * std::log10(results[m].error.mean / results[m].bound), {.abs = 0.02}));
    EXPECT_TRUE(near(results[m].bits.mean, results[m].decibels.mean / 6.0206, {.abs = 0.005}));
  }
}

TEST(BoundStudy, FindsNoMethodBelowTheBound) {
  std::vector<Method> methods;
  for (const char* name :
       {"whole-tensor", "squeezellm", "gptq", "scalar-one-shot", "windowed-one-shot", "best-one-shot"})
    for (const char* bits : {"bits=2", "bits=4"}) methods.push_back(preset(name, {bits}));
  methods.push_back(preset("nf4"));
  methods.push_back(preset("squeezellm", {"outliers_sensitive=0.0005", "outliers_large=0.004"}));
  for (const LayerModel& model : {kSmall, LayerModel{.rows = 64, .columns = 64, .tail = 3, .input_power = 2.0}})
    for (const MethodBound& result : eval::study_bound(model, methods)) {
      EXPECT_GT(result.decibels.mean, 0.0) << result.name;
      EXPECT_GT(result.bits.mean, 0.0) << result.name;
      EXPECT_LT(result.error.mean, 1.0) << result.name;
    }
}

TEST(BoundStudy, TellsMethodsTheStatisticsTheyAskFor) {
  const std::vector<Method> methods = {
      preset("scalar-one-shot", {"bits=2"}), preset("scalar-one-shot", {"bits=2", "output_hessian=false"}),
      preset("whole-tensor", {"bits=2"}), preset("whole-tensor", {"bits=2", "weighting=none"})};
  const auto results = eval::study_bound({.rows = 128, .columns = 128, .output_power = 1.0, .spread = 1.0}, methods);
  EXPECT_LT(results[0].error.mean, 0.9 * results[1].error.mean);  // of gradients that vary together
  EXPECT_LT(results[2].error.mean, 0.9 * results[3].error.mean);  // of inputs that differ in size
}

TEST(BoundStudy, CountsEverythingStored) {
  const std::vector<Method> methods = {preset("whole-tensor", {"bits=2"}), preset("int4-block")};
  const auto results = eval::study_bound(kSmall, methods, {.layers = 1});
  // A palette of four float16 values, a float16 scale a row and one for the bias that shifting adds.
  EXPECT_TRUE(near(results[0].bits_per_weight, 2.0 + 16.0 * (4.0 + 64.0 + 64.0) / (64.0 * 96.0), {.rel = 1e-12}));
  EXPECT_TRUE(near(results[1].bits_per_weight, 4.0 + 16.0 / 32.0, {.rel = 1e-12}));
}

TEST(BoundStudy, AveragesOverLayersThatFollowTheSeed) {
  const std::vector<Method> methods = {preset("gptq", {"bits=3"})};
  double mean = 0.0, squares = 0.0, gaps[3];
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const MethodBound one = eval::study_bound(kSmall, methods, {.layers = 1, .seed = 10 + seed}).front();
    EXPECT_TRUE(std::isnan(one.bits.standard_error));
    gaps[seed] = one.bits.mean;
    mean += one.bits.mean / 3.0;
  }
  for (const double gap : gaps) squares += (gap - mean) * (gap - mean);
  const MethodBound all = eval::study_bound(kSmall, methods, {.layers = 3, .seed = 10}).front();
  EXPECT_TRUE(near(all.bits.mean, mean, {.rel = 1e-14}));
  EXPECT_TRUE(near(all.bits.standard_error, std::sqrt(squares / 2.0 / 3.0), {.rel = 1e-12}));
  EXPECT_GT(all.bits.standard_error, 0.0);
}

TEST(BoundStudy, SaysHowFarItIs) {
  std::vector<std::pair<std::string, double>> seen;
  const std::vector<Method> methods = {preset("palette"), preset("nf4")};
  eval::study_bound({.rows = 8, .columns = 64}, methods, {.layers = 2, .progress = [&](const ProgressUpdate& update) {
                                                            EXPECT_EQ(update.total, 8.0 * 64.0 * 4.0);
                                                            seen.emplace_back(update.stage, update.done);
                                                          }});
  EXPECT_EQ(seen, (std::vector<std::pair<std::string, double>>{{"drawing a layer", 0.0},
                                                               {"quantizing", 512.0},
                                                               {"quantizing", 1024.0},
                                                               {"drawing a layer", 1024.0},
                                                               {"quantizing", 1536.0},
                                                               {"quantizing", 2048.0}}));
}

TEST(BoundStudy, NamesMethodsThatCannotFinish) {
  const std::vector<Method> exact = {preset("palette", {"palette_dtype=float32"})};
  EXPECT_TRUE(throws_with<NumericalError>([&] { eval::study_bound({.rows = 2, .columns = 2}, exact); }, "palette",
                                          "too small", "no error"));
  const std::vector<Method> windows = {preset("windowed-one-shot")};
  EXPECT_TRUE(throws_with<NumericalError>([&] { eval::study_bound({.rows = 1, .columns = 1}, windows); }, "windowed",
                                          "too small", "bound of 0"));
}

TEST(BoundStudy, RefusesWhatALayerAloneHasNot) {
  const auto refuses = [](const Method& method, const char* word) {
    return throws_with<InvalidArgument>([&] { eval::study_bound(kSmall, std::span(&method, 1)); }, method.name, word);
  };
  EXPECT_TRUE(refuses(preset("best-mixed"), "budget"));
  EXPECT_TRUE(refuses(preset("best-tuned"), "tuning"));
  EXPECT_TRUE(refuses(preset("gptq", {"sequential=true"}), "sequential"));
  EXPECT_TRUE(refuses(preset("int4-block", {"input_scaling=awq"}), "input_scaling"));
  EXPECT_TRUE(refuses(preset("palette", {"format=float16"}), "float16"));
  const std::vector<Method> vectors = {preset("palette", {"cluster_dim=4", "bits=8"})}, methods = {preset("palette")};
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { eval::study_bound({.rows = 8, .columns = 66}, vectors); },
                                           "cluster_dim", "66 columns"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { eval::study_bound(kSmall, methods, {.layers = 0}); }, "layers"));
}

}  // namespace
}  // namespace nibble::test
