#include "eval/sweep/diff.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

TensorRecord tensor(const std::string& name, double bits, double error) {
  return {{.name = name,
           .format = "palette",
           .weights = 64,
           .stored_bits = 320,
           .bits_per_weight = bits,
           .relative_weight_error = error,
           .optimality_gap = 0.0,
           .output_error = std::nullopt,
           .fisher_error = std::nullopt},
          {},
          std::nullopt};
}

SweepRecord record(const std::string& bits, std::vector<double> window_nll) {
  SweepRecord made;
  made.labels = {{"model", "m"}, {"recipe", "bits=" + bits}, {"evaluation", "e"}};
  made.configuration = {{"model", R"({"fingerprint":"f"})"},
                        {"recipe", R"({"defaults":{"bits":)" + bits + R"(},"layers":[{"match":"x","bits":2}]})"},
                        {"evaluation", R"({"context":64})"}};
  made.environment = {{"threads", "2"}};
  CellMeasures measures;
  measures.perplexity = 12.0;
  measures.tokens_scored = 64;
  measures.window_nll = std::move(window_nll);
  made.measures = measures;
  return made;
}

TEST(DiffOfRecords, NamesTheSettingsThatDifferDownToTheRule) {
  SweepRecord a = record("3", {2.0}), b = record("4", {2.0});
  b.environment[0].second = "8";
  const RecordDiff diff = diff_records(a, b);
  ASSERT_EQ(diff.settings.size(), 2u);
  EXPECT_EQ(diff.settings[0].name, "recipe.defaults.bits");
  EXPECT_EQ(diff.settings[0].a, "3");
  EXPECT_EQ(diff.settings[0].b, "4");
  EXPECT_EQ(diff.settings[1].name, "threads");
  EXPECT_TRUE(diff.same_measures);
}

TEST(DiffOfRecords, PairsTheWindowsOfOneEvaluation) {
  const RecordDiff diff = diff_records(record("3", {2.0, 3.0, 4.0}), record("4", {2.5, 3.25, 4.75}));
  ASSERT_TRUE(diff.paired);
  EXPECT_EQ(diff.paired->mean, 0.5);  // (0.5 + 0.25 + 0.75) / 3
  EXPECT_TRUE(test::near(diff.paired->standard_error, 0.25 / std::sqrt(3.0), {.rel = 1e-14}));
  // 3.46 standard errors, and undecided: of two degrees of freedom p = 1 − t / √(2 + t²), t = 2 √3.
  EXPECT_TRUE(test::near(diff.paired->p_value, 1.0 - std::sqrt(12.0 / 14.0), {.rel = 1e-12}));
  EXPECT_TRUE(is_undecided(*diff.paired));
  EXPECT_FALSE(diff.same_measures);
  EXPECT_FALSE(diff.paired_kl);
  SweepRecord first = record("3", {2.0, 3.0}), second = record("4", {2.0, 3.0});
  first.measures->divergence.emplace().window_nats = {0.25, 0.5};
  second.measures->divergence.emplace().window_nats = {0.5, 1.0};
  second.configuration[2].second = R"({"context":64,"divergence":true})";  // what else was looked at changes no loss
  const auto kl = diff_records(first, second).paired_kl;
  ASSERT_TRUE(kl);
  EXPECT_EQ(kl->mean, 0.375);
  EXPECT_TRUE(test::near(kl->standard_error, 0.125, {.rel = 1e-14}));  // |0.5 - 0.25| / 2
  SweepRecord other = record("4", {2.5, 3.25, 4.75});
  other.configuration[2].second = R"({"context":32})";
  EXPECT_FALSE(diff_records(record("3", {2.0, 3.0, 4.0}), other).paired);
}

TEST(DiffOfRecords, WindowsWeighAsTheyDoInTheFigures) {
  SweepRecord a = record("3", {2.0, 3.0}), b = record("4", {2.5, 3.25});
  a.measures->divergence.emplace().window_nats = {0.25, 0.5};
  b.measures->divergence.emplace().window_nats = {0.5, 1.75};
  b.measures->window_tokens = {3, 1};  // a is of an earlier version
  const RecordDiff by_windows = diff_records(a, b);
  EXPECT_EQ(by_windows.paired->mean, 0.375);
  EXPECT_EQ(by_windows.paired_kl->mean, 0.5);  // (3 · 0.25 + 1.25) / 4
  // One effective pair and six tenths, as in reports: windows that weigh unequally tell less than as many equal ones.
  EXPECT_GT(by_windows.paired_kl->p_value, 0.3);
  // Σ n² (d − 0.5)² = 9 / 16 + 9 / 16, over 16 − 10.
  EXPECT_TRUE(test::near(by_windows.paired_kl->standard_error, std::sqrt(18.0 / 16.0 / 6.0), {.rel = 1e-14}));
  for (SweepRecord* record : {&a, &b}) record->configuration[2].second = R"({"context":64,"average":"tokens"})";
  EXPECT_EQ(diff_records(a, b).paired->mean, 0.4375);  // (3 · 0.5 + 0.25) / 4
}

TEST(DiffOfRecords, AnOlderRecordIsTheSameWithoutTheTokensOfWindows) {
  const SweepRecord older = record("3", {2.0, 3.0});
  SweepRecord newer = older;
  newer.measures->window_tokens = {63, 2};
  EXPECT_TRUE(diff_records(older, newer).same_measures);
  EXPECT_TRUE(diff_records(newer, older).same_measures);
  EXPECT_TRUE(diff_records(newer, newer).same_measures);
  SweepRecord another = newer;
  another.measures->window_tokens = {62, 3};
  EXPECT_FALSE(diff_records(newer, another).same_measures);
}

TEST(DiffOfRecords, ATensorOfOneSideOnlyHasNothingOnTheOther) {
  SweepRecord a = record("3", {2.0}), b = record("4", {2.0});
  a.measures->tensors = {tensor("x", 3.0, 0.25), tensor("only a", 3.0, 0.5)};
  b.measures->tensors = {tensor("x", 4.0, 0.125), tensor("only b", 4.0, 0.5)};
  const auto layers = diff_records(a, b).layers;
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0].error_a, 0.25);
  EXPECT_EQ(layers[0].error_b, 0.125);
  EXPECT_EQ(layers[1].name, "only a");
  EXPECT_EQ(layers[1].bits_b, std::nullopt);
  EXPECT_EQ(layers[2].bits_a, std::nullopt);
  EXPECT_EQ(layers[2].bits_b, 4.0);
}

TEST(DiffOfRecords, AFailureIsAnOutcome) {
  SweepRecord a = record("3", {2.0}), b = record("3", {2.0});
  b.measures.reset();
  b.error = CellError{"NumericalError", "NaN"};
  const RecordDiff diff = diff_records(a, b);
  ASSERT_EQ(diff.settings.size(), 1u);
  EXPECT_EQ(diff.settings[0].b, "NaN");
  EXPECT_TRUE(diff_records(b, b).same_measures);
}

TEST(DiffOfCheckpoints, IsTheRelativeDistanceOfEachLayer) {
  const test::TempDir temp;
  test::TinyModel model = test::tiny_llama();
  model.write(temp / "a");
  auto& bytes = model.tensor("model.layers.1.mlp.up_proj.weight").bytes;
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  double squares = 0.0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  const float before = values[5];
  values[5] += 1.0f;
  std::memcpy(bytes.data(), values.data(), bytes.size());
  const double step = static_cast<double>(values[5]) - static_cast<double>(before);
  model.write(temp / "b");
  const CheckpointDiff diff = diff_checkpoints(temp / "a", temp / "b");
  ASSERT_EQ(diff.layers.size(), 14u);
  for (const LayerDiff& layer : diff.layers) {
    const double expected = layer.name == "model.layers.1.mlp.up_proj" ? step / std::sqrt(squares) : 0.0;
    EXPECT_TRUE(test::near(layer.between.value(), expected, {.rel = 1e-12})) << layer.name;  // a sum of 432
  }
  // Nothing is far from nothing only where both are.
  const auto between = [&](const char* a, const char* b) {
    for (const LayerDiff& layer : diff_checkpoints(temp / a, temp / b).layers)
      if (layer.name == "model.layers.1.mlp.up_proj") return layer.between.value();
    return -1.0;
  };
  std::fill(values.begin(), values.end(), 0.0f);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  model.write(temp / "zero");
  EXPECT_TRUE(std::isinf(between("zero", "a")));
  EXPECT_TRUE(test::near(between("a", "zero"), 1.0, {.rel = 1e-12}));
  EXPECT_TRUE(test::near(between("zero", "zero"), 0.0, {}));
  values[5] = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data(), values.data(), bytes.size());
  model.write(temp / "nan");
  EXPECT_TRUE(std::isnan(between("nan", "a")));
  EXPECT_TRUE(std::isnan(between("a", "nan")));
  test::tiny_gpt2().write(temp / "c");
  EXPECT_TRUE(
      test::throws_with<InvalidArgument>([&] { diff_checkpoints(temp / "a", temp / "c"); }, "different layers"));
}

}  // namespace
}  // namespace nibble::eval
