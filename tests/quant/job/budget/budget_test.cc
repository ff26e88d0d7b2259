// Budgets end to end on little models: what is tried, what it is predicted to cost, what is picked, what is refused.
#include "quant/job/budget/budget.h"

#include <gtest/gtest.h>

#include <cmath>

#include "calib/stats/derived.h"
#include "calib/stats/stats_file.h"
#include "calib/stats/stats_writer.h"
#include "core/error.h"
#include "core/text/json.h"
#include "quant/job/quantize_model.h"
#include "quant/job/statistics/predicted_loss.h"
#include "quant/job/statistics/weight_statistics.h"
#include "quant/store/load_model.h"
#include "quant/tensor/quantize_tensor.h"
#include "tests/export/export_support.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/layers.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using test::TempDir;
namespace fs = std::filesystem;

QuantizeResult quantize(const TempDir& dir, std::string_view yaml, const std::string& output = "out",
                        const ProgressSink& progress = {}) {
  return test::quantize(dir / "model", dir / output, yaml, {dir / "calib.h5"}, progress);
}

using Layouts = std::vector<std::string>;
Layouts layouts_of(const BudgetTensor& tensor) {
  Layouts layouts;
  for (const auto& candidate : tensor.candidates) layouts.push_back(candidate.layout);
  return layouts;
}

// A Llama with made-up statistics.
void write_model(const TempDir& dir, const calib::StatisticSet& what = calib::kEverything,
                 calib::FisherFlavour flavour = calib::FisherFlavour::kSequence) {
  test::tiny_llama().write(dir / "model");
  test::write_calibration(dir / "calib.h5", dir / "model", what, 1, flavour);
}

const BudgetCandidate& chosen(const BudgetTensor& tensor) {
  const auto found =
      std::find_if(tensor.candidates.begin(), tensor.candidates.end(), [](const auto& c) { return c.chosen; });
  EXPECT_NE(found, tensor.candidates.end()) << tensor.name;
  return *found;
}

constexpr std::string_view kBudget = "budget: {bits_per_weight: 6.0, bits: [2, 3, 4], granularity: [tensor, channel]}";

// Which rows share a palette decides whether signs and weights of rows mean anything.
TEST(Budget, KeepsOfSettingsWhatMeansSomethingToEachWay) {
  QuantizeItem item;
  item.identity.name = "a";
  item.identity.block_linear = true;
  const Recipe recipe = Recipe::parse(
      "defaults: {scaling: std, sign: search, weighting_scale: plain}\n"
      "budget: {bits_per_weight: 6, bits: [4], granularity: [tensor, channel]}",
      "r");
  item.settings = recipe.settings("a.weight");
  const std::vector<TensorSettings> ways = budget_ways(item, recipe);
  ASSERT_EQ(ways.size(), 2u);
  EXPECT_EQ(ways[0].sign, item.settings.sign);
  EXPECT_NE(item.settings.sign, TensorSettings{}.sign);
  EXPECT_EQ(ways[1].granularity, Granularity::kChannel);
  EXPECT_EQ(ways[1].sign, TensorSettings{}.sign);
  EXPECT_EQ(ways[1].weighting_scale, TensorSettings{}.weighting_scale);
  EXPECT_EQ(ways[1].scaling, item.settings.scaling);
}

TEST(Budget, PicksWhatTheTableSaysWithinTheLimit) {
  const TempDir dir;
  write_model(dir);
  const auto result = quantize(dir, kBudget);
  ASSERT_TRUE(result.budget);
  EXPECT_EQ(result.budget->tensors.size(), 14u);
  EXPECT_LE(result.bits_per_weight, 6.0);
  double loss = 0.0, bits = 0.0, weights = 0.0;
  for (std::size_t i = 0; i < result.tensors.size(); ++i) {
    const TensorResult& tensor = result.tensors[i];
    const BudgetTensor& row = result.budget->tensors[i];
    EXPECT_EQ(row.name, tensor.name);
    EXPECT_EQ(row.candidates.size(), 6u);
    EXPECT_EQ(chosen(row).stored_bits, tensor.stored_bits);
    EXPECT_EQ(chosen(row).predicted_loss, tensor.predicted_loss);
    loss += chosen(row).predicted_loss;
    bits += static_cast<double>(tensor.stored_bits);
    weights += static_cast<double>(tensor.weights);
  }
  EXPECT_EQ(result.bits_per_weight, bits / weights);
  EXPECT_TRUE(test::near(result.budget->predicted_loss, loss, {.rel = 1e-14})) << "a sum of 14, in another order";
  EXPECT_TRUE(result.budget->exact);
  EXPECT_EQ(result.budget->lower_bound, result.budget->predicted_loss);
  const auto json = nlohmann::json::parse(test::read_file(dir / "out" / "quantization.json"));
  EXPECT_EQ(json.at("budget").at("tensors").size(), 14u);
  EXPECT_EQ(json.at("budget").at("tensors")[3].at("candidates").size(), 6u);
  EXPECT_EQ(json.at("budget").at("exact"), true);
  // What was picked is what is stored: it loads, and decodes as an export does.
  EXPECT_NO_THROW(load_model(dir / "out"));
}

TEST(Budget, MoreBitsNeverPredictMoreLoss) {
  const TempDir dir;
  write_model(dir);
  double before = INFINITY;
  for (const double bits : {5.0, 6.0, 8.0, 100.0}) {
    if (bits > 16.0) break;
    const auto result = quantize(dir, fmt::format("budget: {{bits_per_weight: {}, bits: [2, 3, 4]}}", bits));
    EXPECT_LE(result.bits_per_weight, bits);
    EXPECT_LE(result.budget->predicted_loss, before);
    before = result.budget->predicted_loss;
  }
}

// W - What of the checkpoint that came out, (out, in).
class Errors {
 public:
  explicit Errors(const TempDir& dir)
      : before_(make_weight_provider(model::Checkpoint::open(dir / "model"))),
        after_(make_weight_provider(model::Checkpoint::open(dir / "out"))),
        architecture_(model::Checkpoint::open(dir / "out")->architecture()) {}
  Matrix<double> of(const std::string& name) const {
    const auto parameter = test::parameter_called(architecture_, name);
    const auto w = before_->matrix(parameter), decoded = after_->matrix(parameter);
    Matrix<float> a(w->rows(), w->cols()), b(w->rows(), w->cols());
    w->decode_rows(0, w->rows(), a.data());
    decoded->decode_rows(0, w->rows(), b.data());
    Matrix<double> delta(w->rows(), w->cols());
    for (std::size_t i = 0; i < delta.size(); ++i)
      delta.data()[i] = static_cast<double>(a.data()[i]) - static_cast<double>(b.data()[i]);
    return delta;
  }

 private:
  std::shared_ptr<const model::WeightProvider> before_, after_;
  model::Architecture architecture_;
};

// The loss predicted for every weight, from the checkpoint that came out and the statistics, in plain double loops.
void expect_losses(const TempDir& dir, const QuantizeResult& result, double factor) {
  const auto file = calib::StatsFile::open(dir / "calib.h5");
  const Errors errors(dir);
  for (const TensorResult& tensor : result.tensors) {
    const auto layer = file->read(tensor.name);
    const Matrix<double> delta = errors.of(tensor.name);
    double sum = 0.0;
    for (std::size_t i = 0; i < delta.size(); ++i)
      sum += static_cast<double>(layer.fisher.data()[i]) * delta.data()[i] * delta.data()[i];
    const double expected = 0.5 * factor * sum / 3.0;  // 3 windows
    // Δ is rounded to float once (2^-24 of W, and |Δ| > 2^-6 |W| at 2 and 3 bits but for few): far below 1e-5.
    EXPECT_TRUE(test::near(tensor.predicted_loss.value(), expected, {.rel = 1e-5})) << tensor.name;
  }
}

TEST(Budget, PredictsHalfOfFisherTimesSquaredErrorInNatsPerToken) {
  const TempDir dir;
  write_model(dir, {.fisher = true});  // windows of 7 tokens: 6 next tokens
  const auto sequence = quantize(dir, kBudget);
  EXPECT_EQ(sequence.budget->loss_estimate, "fisher");
  expect_losses(dir, sequence, 6.0);
  fs::remove(dir / "calib.h5");
  write_model(dir, {.fisher = true}, calib::FisherFlavour::kPosition);
  expect_losses(dir, quantize(dir, kBudget), 1.0 / 6.0);
}

TEST(Budget, PredictsWithTheGuidedHessianWhereErrorsFeedBack) {
  const TempDir dir;
  write_model(dir);
  const auto result = quantize(dir,
                               "defaults: {format: uniform, bits: 4, solver: gptq}\n"
                               "budget: {bits_per_weight: 4.5, bits: [2, 3, 4]}");
  EXPECT_EQ(result.budget->loss_estimate, "guided-hessian");
  const auto file = calib::StatsFile::open(dir / "calib.h5");
  const Errors errors(dir);
  for (const TensorResult& tensor : result.tensors) {
    const auto layer = file->read(tensor.name);
    const Matrix<double> delta = errors.of(tensor.name);
    double sum = 0.0;
    for (std::size_t i = 0; i < layer.out; ++i)
      for (std::size_t j = 0; j < layer.in; ++j)
        for (std::size_t k = 0; k < layer.in; ++k)
          sum += delta(i, j) * static_cast<double>(layer.sum_s_xxt(j, k)) * delta(i, k);
    // Products in float: 2^-24 times a few, next to a sum that feedback makes small against its terms.
    EXPECT_TRUE(test::near(tensor.predicted_loss.value(), 0.5 * 6.0 * sum / 3.0, {.rel = 1e-4})) << tensor.name;
  }
}

TEST(Budget, PredictsWithTheHessiansOfInputsAndOutputsWhereRowsAreCoupled) {
  const TempDir dir;
  write_model(dir);
  const std::string recipe =
      "defaults: {bits: 4, solver: coordinate-descent, hessian: guided, output_hessian: true}\n"
      "budget: {bits_per_weight: 5.5, bits: [2, 3, 4], granularity: [tensor]";
  EXPECT_EQ(quantize(dir, recipe + ", estimate: guided-hessian}").budget->loss_estimate, "guided-hessian");
  EXPECT_EQ(quantize(dir, "layers: [{match: q_proj, output_hessian: false}]\n" + recipe + "}").budget->loss_estimate,
            "guided-hessian")
      << "one estimate for all";
  const auto result = quantize(dir, recipe + "}");
  EXPECT_EQ(result.budget->loss_estimate, "kronecker");
  const auto file = calib::StatsFile::open(dir / "calib.h5");
  const Errors errors(dir);
  for (const TensorResult& tensor : result.tensors) {
    const auto layer = file->read(tensor.name);
    const Matrix<double> delta = errors.of(tensor.name);
    double trace = 0.0, sum = 0.0;
    for (std::size_t i = 0; i < layer.out; ++i) trace += static_cast<double>(layer.sum_dydyt(i, i));
    for (std::size_t i = 0; i < layer.out; ++i)
      for (std::size_t k = 0; k < layer.out; ++k) {
        double inner = 0.0;
        for (std::size_t j = 0; j < layer.in; ++j)
          for (std::size_t l = 0; l < layer.in; ++l)
            inner += delta(i, j) * static_cast<double>(layer.sum_s_xxt(j, l)) * delta(k, l);
        const double h_out = static_cast<double>(layer.sum_dydyt(i, k)) * static_cast<double>(layer.out) / trace;
        sum += (h_out + (i == k ? 0.1 : 0.0)) / 1.1 * inner;
      }
    // As with the guided Hessian alone, and one more product in float.
    EXPECT_TRUE(test::near(tensor.predicted_loss.value(), 0.5 * 6.0 * sum / 3.0, {.rel = 2e-4})) << tensor.name;
  }
}

TEST(Budget, PredictsWithTheHessianOfTheInputsToo) {
  const TempDir dir;
  write_model(dir);
  const auto result = quantize(dir, "budget: {bits_per_weight: 6, bits: [2, 3]}");
  EXPECT_EQ(result.budget->loss_estimate, "fisher-hessian");
  const auto file = calib::StatsFile::open(dir / "calib.h5");
  const Errors errors(dir);
  for (const TensorResult& tensor : result.tensors) {
    const auto layer = file->read(tensor.name);
    const auto owner = layer.input_of.empty() ? layer : file->read(layer.input_of);
    const Matrix<double> delta = errors.of(tensor.name);
    double power = 0.0, sum = 0.0;
    for (const double square : layer.sum_x2) power += square;
    for (std::size_t i = 0; i < layer.out; ++i) {
      double fisher = 0.0, error = 0.0;
      for (std::size_t j = 0; j < layer.in; ++j) {
        fisher += static_cast<double>(layer.fisher(i, j));
        for (std::size_t k = 0; k < layer.in; ++k)
          error += delta(i, j) * static_cast<double>(owner.sum_xxt(j, k)) * delta(i, k);
      }
      sum += fisher / 3.0 / power * error;  // 3 windows
    }
    // As above; f is rounded to float too.
    EXPECT_TRUE(test::near(tensor.predicted_loss.value(), 0.5 * 6.0 * sum, {.rel = 1e-4})) << tensor.name;
  }
}

// Statistics of a mixture as they come: a window's loss is over its own next tokens, however few chose an expert.
TEST(Budget, ExpertsCountByTheWindowsOfTheirSumsNotByTheirTokens) {
  const TempDir dir;
  test::tiny_mixtral().write(dir / "model");
  const auto architecture = test::config_of(dir / "model");
  const auto checkpoint = model::Checkpoint::open(dir / "model");
  const auto losses = [&](std::uint64_t tokens, LossEstimate estimate, calib::FisherFlavour flavour) {
    const fs::path path = dir / fmt::format("{}, {}, {}.h5", tokens, static_cast<int>(estimate), to_text(flavour));
    auto settings = calib::example_settings();
    settings.model_hash = checkpoint->fingerprint();
    settings.flavour = flavour;
    calib::StatsWriter writer(path, settings);
    for (const auto& layer : test::layers_of(architecture)) {
      auto stats = calib::example_layer(layer.module, layer.out, layer.in, 1);
      if (layer.expert) stats.tokens = tokens;
      writer.add(stats);
    }
    writer.commit();
    const Calibration calibration(std::vector<fs::path>{path}, *checkpoint);
    std::vector<double> result;
    for (const QuantizeItem& item : make_plan(checkpoint, architecture, Recipe()).items)
      if (item.identity.block_linear)
        result.push_back(predicted_loss(
            item, quantize_tensor(item.identity.name, *item.source, item.settings, statistics_for(item, calibration)),
            calibration, estimate));
    return result;
  };
  for (const auto flavour : {calib::FisherFlavour::kSequence, calib::FisherFlavour::kPosition})
    for (const LossEstimate estimate : {LossEstimate::kFisher, LossEstimate::kGuidedHessian, LossEstimate::kKronecker,
                                        LossEstimate::kFisherHessian}) {
      const auto all = losses(21, estimate, flavour), few = losses(2, estimate, flavour);
      ASSERT_EQ(all.size(), 32u);
      // Sums divided by other counts in between: a few roundings to float.
      for (std::size_t i = 0; i < all.size(); ++i)
        EXPECT_TRUE(test::near(few[i], all[i], {.rel = 1e-5})) << i << ", estimate " << static_cast<int>(estimate);
    }
}

TEST(Budget, PredictsWithTheEstimateThatIsAskedFor) {
  const TempDir dir;
  write_model(dir);
  const auto result = quantize(dir, "budget: {bits_per_weight: 6, bits: [2, 3], estimate: fisher}");
  EXPECT_EQ(result.budget->loss_estimate, "fisher");
  expect_losses(dir, result, 6.0);
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { quantize(dir, "budget: {bits_per_weight: 6, estimate: fischer}"); }, "did you mean 'fisher'"));
}

TEST(Budget, LeavesAloneWhatRulesName) {
  const TempDir dir;
  write_model(dir);
  const auto result = quantize(dir,
                               "layers:\n"
                               "  - {match: 'q_proj', bits: 3}\n"
                               "  - {match: 'k_proj', granularity: channel}\n"
                               "  - {match: 'v_proj', format: float16}\n"
                               "  - {match: 'o_proj', format: int4-block, group_size: 16}\n"
                               "  - {match: 'lm_head', bits: 8}\n"
                               "budget: {bits_per_weight: 7.5, bits: [2, 4], granularity: [tensor, channel]}");
  for (const BudgetTensor& tensor : result.budget->tensors) {
    const Layouts layouts = layouts_of(tensor);
    if (tensor.name.ends_with("q_proj")) {
      EXPECT_EQ(layouts, (Layouts{"palette 3-bit tensor", "palette 3-bit channel"}));
    } else if (tensor.name.ends_with("k_proj")) {
      EXPECT_EQ(layouts, (Layouts{"palette 2-bit channel", "palette 4-bit channel"}));
    } else if (tensor.name.ends_with("o_proj")) {
      EXPECT_EQ(layouts, (Layouts{"int4-block 16"}));
    } else {
      EXPECT_EQ(layouts.size(), 4u) << tensor.name;
    }
    EXPECT_FALSE(tensor.name.ends_with("v_proj"));
    EXPECT_NE(tensor.name, "lm_head");
  }
  EXPECT_LE(result.bits_per_weight, 7.5) << "float16 layers count, the head does not";
  for (const TensorResult& tensor : result.tensors)
    if (tensor.name == "lm_head") {
      EXPECT_GE(tensor.bits_per_weight, 8.0);
    }
}

// Two names of one layout would be written to one file.
TEST(Budget, TriesEachLayoutOnce) {
  const TempDir dir;
  write_model(dir);
  const auto result = quantize(dir,
                               "defaults: {granularity: channel-group, group_size: 1}\n"
                               "budget: {bits_per_weight: 9, bits: [2, 3], granularity: [channel-group, channel]}");
  for (const BudgetTensor& tensor : result.budget->tensors)
    EXPECT_EQ(layouts_of(tensor), (Layouts{"palette 2-bit channel", "palette 3-bit channel"})) << tensor.name;
}

TEST(Budget, TheHeadDoesNotDecideHowLossesOfTheBlocksAreEstimated) {
  std::vector<QuantizeItem> items(2);
  items[0].identity.block_linear = true;
  items[1].identity.block_linear = false;
  items[1].settings.solver = Solver::kGptq;
  EXPECT_EQ(least_loss_estimate(LossEstimate::kAuto, items), LossEstimate::kFisher);
  items[1].identity.block_linear = true;
  EXPECT_EQ(least_loss_estimate(LossEstimate::kAuto, items), LossEstimate::kGuidedHessian);
}

TEST(Budget, TriesWindowsWhereStreamsHoldThem) {
  const TempDir dir;
  write_model(dir);
  const auto result =
      quantize(dir,
               "layers: [{match: 'q_proj', window_bits: 6}, {match: 'k_proj', granularity: channel}]\n"
               "budget: {bits_per_weight: 9, bits: [2, 4], granularity: [tensor], window_bits: [0, 4, 5]}");
  bool taken = false;
  for (const BudgetTensor& tensor : result.budget->tensors) {
    const Layouts layouts = layouts_of(tensor);
    if (tensor.name.ends_with("q_proj")) {
      EXPECT_EQ(layouts, (Layouts{"palette 2-bit window-6 tensor", "palette 4-bit window-6 tensor"}));
    } else if (tensor.name.ends_with("k_proj")) {
      EXPECT_EQ(layouts, (Layouts{"palette 2-bit channel", "palette 4-bit channel"}));
    } else {
      EXPECT_EQ(layouts,
                (Layouts{"palette 2-bit tensor", "palette 2-bit window-4 tensor", "palette 2-bit window-5 tensor",
                         "palette 4-bit tensor", "palette 4-bit window-5 tensor"}))
          << "4 bits on leave no overlap of 4";
      taken = taken || chosen(tensor).layout.find("window") != std::string::npos;
    }
  }
  EXPECT_TRUE(taken) << "some stream is worth its bits";
  EXPECT_LE(result.bits_per_weight, 9.0);
  EXPECT_EQ(load_model(dir / "out").bits_per_weight, result.bits_per_weight);
  const auto text = Recipe::parse("budget: {bits_per_weight: 3, window_bits: [0, 6]}", "recipe").canonical_text();
  EXPECT_NE(text.find("window_bits: [0,6]"), std::string::npos) << text;
  EXPECT_EQ(Recipe::parse(text, "again").canonical_text(), text);
}

TEST(Budget, RefusesWidthsThatNoWindowOfItsListHolds) {
  const TempDir dir;
  write_model(dir);
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { quantize(dir, "budget: {bits_per_weight: 4, bits: [2, 6], granularity: [tensor], window_bits: [6]}"); },
      "no windows of 6 bits go on by 6 bits", "list 0 in budget.window_bits"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { quantize(dir, "{defaults: {bits: 2, window_bits: 6}, budget: {bits_per_weight: 4, bits: [2]}}"); },
      "granularity: channel"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { Recipe::parse("budget: {bits_per_weight: 4, window_bits: [3]}", "recipe"); }, "or 4 to 10, got '3'"));
}

TEST(Budget, RefusesListsThatNoLayerIsFreeToTake) {
  const TempDir dir;
  write_model(dir);
  const auto refused = [&](std::string_view defaults, std::string_view lists, std::string_view key) {
    return test::throws_with<InvalidArgument>(
        [&] {
          quantize(dir, fmt::format("{{defaults: {{{}}}, budget: {{bits_per_weight: 8, {}}}}}", defaults, lists));
        },
        fmt::format("budget: {}: no layer", key), fmt::format("leave {} out", key));
  };
  EXPECT_TRUE(refused("format: int4-block", "bits: [2, 8]", "bits"));
  EXPECT_TRUE(refused("format: block-palette, palette: nf4", "bits: [2, 4]", "bits"));
  EXPECT_TRUE(refused("format: uniform", "granularity: [channel-group]", "granularity"));
  EXPECT_TRUE(refused("format: uniform", "window_bits: [6]", "window_bits"));
  EXPECT_FALSE(fs::exists(dir / "out.partial")) << "found before any work";
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { quantize(dir, "{layers: [{match: '.', bits: 3}], budget: {bits_per_weight: 8, bits: [2, 3]}}"); },
      "budget: bits: no layer"));
  // What is said by default may go unused, and so may what only some layers take.
  EXPECT_NO_THROW(quantize(dir, "{defaults: {format: int4-block}, budget: {bits_per_weight: 8, bits: [2, 3, 4, 6]}}"));
  EXPECT_NO_THROW(quantize(dir,
                           "{layers: [{match: 'q_proj', format: int4-block}], budget: {bits_per_weight: 8, "
                           "bits: [2, 3], granularity: [tensor]}}"));
}

TEST(Budget, RefusesTheImpossibleAndSaysWhatIsPossible) {
  const TempDir dir;
  write_model(dir);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { quantize(dir, "budget: {bits_per_weight: 1.5, bits: [2, 3]}"); },
                                                 "the codes alone take 2.0000 at least"));
  EXPECT_FALSE(fs::exists(dir / "out.partial")) << "found before any work";
  // Palettes on top of the codes: known only when they are there.
  std::string least;
  try {
    quantize(dir, "budget: {bits_per_weight: 2.01, bits: [2, 3]}");
  } catch (const InvalidArgument& error) {
    const std::string text = error.what();
    const auto at = text.find("them take ");
    ASSERT_NE(at, std::string::npos) << text;
    least = text.substr(at + 10, 6);
  }
  ASSERT_FALSE(least.empty());
  EXPECT_NO_THROW(quantize(dir, fmt::format("budget: {{bits_per_weight: {}, bits: [2, 3]}}", least)))
      << "the least that is named is possible";
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { quantize(dir, "{defaults: {format: uniform}, budget: {bits_per_weight: 4, bits: [1]}}"); }, "budget: bits",
      "format: uniform"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { quantize(dir, "budget: {bits_per_weight: 4, bits: [2, 2]}"); },
                                                 "listed twice"));
}

TEST(Budget, WithoutSensitivitiesSaysHowToCollectThem) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  test::write_calibration(dir / "calib.h5", dir / "model", {.activations = true});
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { quantize(dir, kBudget); },
                                                 "budget: weighing bits against loss needs the statistic 'fisher'",
                                                 "nibble calibrate", "--collect fisher"));
}

TEST(Budget, GoesOnAfterAKillAndEndsInTheSameBytes) {
  const TempDir dir;
  write_model(dir);
  quantize(dir, kBudget, "expected");
  struct Stop {};
  EXPECT_THROW(quantize(dir, kBudget, "out",
                        [](const ProgressUpdate& at) {
                          if (at.done > at.total / 2) throw Stop();
                        }),
               Stop);
  EXPECT_FALSE(fs::exists(dir / "out"));
  EXPECT_GT(std::distance(fs::directory_iterator(dir / "out.partial" / "scratch"), {}), 20);
  quantize(dir, kBudget, "out");
  EXPECT_EQ(test::files_without_times(dir / "out"), test::files_without_times(dir / "expected"));
}

}  // namespace
}  // namespace nibble::quant
