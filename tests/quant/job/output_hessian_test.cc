// `output_hessian: true` on little models: which matrix reaches which weight, what the head, `sequential` and experts
// make of it, what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "calib/collect/collector.h"
#include "calib/stats/derived.h"
#include "calib/stats/stats_file.h"
#include "calib/stats/stats_writer.h"
#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "model/synthesize/synthesize_model.h"
#include "quant/algo/kmeans/sensitivity.h"
#include "quant/algo/palettes/palette_columns.h"
#include "quant/algo/palettes/palettize.h"
#include "quant/algo/solve/coordinate_descent.h"
#include "quant/algo/solve/coupled_descent.h"
#include "quant/algo/solve/coupled_feedback.h"
#include "quant/job/statistics/calibrate_model.h"
#include "quant/job/statistics/rare_experts.h"
#include "quant/job/statistics/weight_statistics.h"
#include "quant/store/load_model.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/layers.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using calib::StatisticSet;
using test::quantize;
using test::TempDir;
using test::weight_of;
using test::write_calibration;
namespace fs = std::filesystem;

constexpr const char* kCoupled = "bits: 2, solver: coordinate-descent, output_hessian: true";
constexpr const char* kAlone = "bits: 2, solver: coordinate-descent";

std::string defaults(std::string_view keys, std::string_view rules = "") {
  return fmt::format("{{defaults: {{{}}}, layers: [{}]}}", keys, rules);
}

Matrix<float> in_float(const Matrix<double>& h) {
  Matrix<float> result(h.rows(), h.cols());
  for (std::size_t i = 0; i < h.size(); ++i) result.data()[i] = static_cast<float>(h.data()[i]);
  return result;
}

Matrix<float> damped(Matrix<float> h, double damping) {
  for (std::size_t i = 0; i < h.rows(); ++i) h(i, i) += static_cast<float>(damping * static_cast<double>(h(i, i)));
  return h;
}

CalibrationText text() {
  CalibrationText text{.tokens = {}, .window_tokens = 20, .fingerprint = "text"};
  for (int i = 0; i < 20 * 6; ++i) text.tokens.push_back(static_cast<TokenId>((i * 7 + i / 5) % 40));
  return text;
}

// nibble calibrate, on made-up tokens.
void calibrate(const fs::path& model, const fs::path& output, const StatisticSet& what, bool head = false) {
  datasets::CalibrationWindows windows;
  windows.length = 20;
  windows.fingerprint = "text";
  windows.tokens = text().tokens;
  const LoadedModel loaded = load_model(model);
  CalibrationSource source;
  source.tokens = "tokens.u16";
  CalibrateOptions options;
  options.collect = what;
  options.head = head;
  calib::calibrate(calibration_job(loaded, nullptr, source, windows, options, output));
}

bool same_weights(const fs::path& a, const fs::path& b, const fs::path& model) {
  const auto layers = test::layers_of(test::config_of(model));
  return std::all_of(layers.begin(), layers.end(), [&](const model::Parameter& layer) {
    return static_cast<bool>(test::same_bits(weight_of(a, layer).values(), weight_of(b, layer).values()));
  });
}

// GPT-2's q, k and v lie in one tensor: each is solved under the rows and columns of its own outputs.
TEST(OutputHessian, IsWhatTheLayersOwnOutputsAreSolvedUnder) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  write_calibration(dir / "calib.h5", dir / "model");
  const auto file = calib::StatsFile::open(dir / "calib.h5");
  quantize(dir / "model", dir / "out", defaults(std::string(kCoupled) + ", damping: 0.02"), {dir / "calib.h5"});
  for (const auto& layer : test::layers_of(test::config_of(dir / "model"))) {
    const Matrix<float> w = weight_of(dir / "model", layer);
    const Matrix<float> h = in_float(calib::hessian(file->read(layer.module), calib::HessianKind::kPlain));
    Matrix<float> h_out = in_float(calib::output_hessian(file->read(layer.module)));
    for (std::size_t i = 0; i < h_out.rows(); ++i) h_out(i, i) += 0.1f;  // of the mean diagonal, which is 1
    const auto inputs = factor_hessian<float>(h.view(), {.damping = 0.02}),
               outputs = factor_hessian<float>(std::as_const(h_out).view(), {.damping = 0.02, .act_order = false});
    // Made up of fewer tokens than it has inputs, a Hessian may need more than it was given.
    const Matrix<float> objective = damped(h, inputs.damping_share), coupling = damped(h_out, outputs.damping_share);
    const Palettization palette = palettize(w, {}, {.bits = 2});
    PaletteRounding rounding(palette.palettes, 0, {});
    Matrix<std::uint8_t> codes = round_with_coupled_feedback<std::uint8_t>(w, inputs, outputs, rounding);
    coupled_descent<std::uint8_t>(w, objective, coupling, rounding, kMostCoupledSweeps, codes, kLeastGain);
    const Matrix<float> made = weight_of(dir / "out", layer);
    for (std::size_t i = 0; i < w.rows(); ++i)
      for (std::size_t j = 0; j < w.cols(); ++j)
        ASSERT_EQ(made(i, j), palette.palettes(0, codes(i, j))) << layer.module << " " << i << " " << j;
  }
}

// `weighting: hessian`: palettes are fitted to what an error of each weight alone costs.
TEST(HessianWeights, AreTheDiagonalOfWhatCodesAreSolvedUnder) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  write_calibration(dir / "calib.h5", dir / "model", {.hessian = true, .output_hessian = true});
  const auto file = calib::StatsFile::open(dir / "calib.h5");
  for (const bool coupled : {false, true}) {
    quantize(dir / "model", dir / "out", defaults(std::string(coupled ? kCoupled : kAlone) + ", weighting: hessian"),
             {dir / "calib.h5"});
    for (const auto& layer : test::layers_of(test::config_of(dir / "model"))) {
      const Matrix<float> w = weight_of(dir / "model", layer), made = weight_of(dir / "out", layer);
      const auto h = calib::hessian(file->read(layer.module), calib::HessianKind::kPlain);
      const auto h_out = calib::output_hessian(file->read(layer.module));
      Matrix<double> costs(w.rows(), w.cols());
      for (std::size_t i = 0; i < w.rows(); ++i)
        for (std::size_t j = 0; j < w.cols(); ++j)
          costs(i, j) = h(j, j) * (coupled ? h_out(i, i) + 0.1 : 1.0);  // of the mean diagonal, which is 1
      const Palettization expected = palettize(w, kmeans_weights(costs), {.bits = 2});
      const std::set<float> values(made.values().begin(), made.values().end());
      ASSERT_EQ(values.size(), 4u) << layer.module;
      std::size_t k = 0;
      // Palettes are float16, and neighbours there are up to 2⁻¹⁰ apart.
      for (const float value : values)
        EXPECT_TRUE(test::near(value, expected.palettes(0, k++), {.rel = 1e-3})) << layer.module;
      const Palettization plain = palettize(w, {}, {.bits = 2});
      EXPECT_FALSE(std::equal(values.begin(), values.end(), plain.palettes.values().begin())) << layer.module;
    }
  }
}

TEST(OutputHessian, ThatIsMissingIsRefusedWithTheCommandThatCollectsIt) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  write_calibration(dir / "hessian.h5", dir / "model", {.hessian = true});
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { quantize(dir / "model", dir / "out", defaults(kCoupled), {dir / "hessian.h5"}); },
      "output_hessian: true needs the statistic 'output-hessian' of layer 'model.layers.0.self_attn.q_proj'",
      "hessian.h5", "--collect output-hessian -o more.h5"));
  // One command collects all that is missing.
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { quantize(dir / "model", dir / "out", std::string(quant::Recipe::preset_text("best")), {}); },
      "no --calib was given", "--collect activations,guided-hessian,output-hessian -o calib.h5"));
  EXPECT_FALSE(fs::exists(dir / "out.partial"));
  // From a file of its own it comes as well.
  write_calibration(dir / "outputs.h5", dir / "model", {.output_hessian = true});
  EXPECT_NO_THROW(quantize(dir / "model", dir / "out", defaults(kCoupled), {dir / "hessian.h5", dir / "outputs.h5"}));
}

TEST(OutputHessian, ThereIsNoneOfTheHeadNorOfAnEmbedding) {
  for (const bool tied : {true, false}) {
    const TempDir dir;
    (tied ? test::tiny_gpt2() : test::tiny_llama()).write(dir / "model");
    calibrate(dir / "model", dir / "calib.h5", calib::kEverything, true);
    const std::string head = tied ? "wte" : "lm_head";
    const auto run = [&](const std::string& rule) {
      return quantize(dir / "model", dir / "out", defaults(kCoupled, rule), {dir / "calib.h5"});
    };
    EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { run("{match: '" + head + "', bits: 4}"); },
                                                   head + ": output_hessian: true", "of the blocks only",
                                                   "output_hessian: false"));
    const auto result = run("{match: '" + head + "', bits: 4, output_hessian: false}");
    const auto made =
        std::find_if(result.tensors.begin(), result.tensors.end(), [&](const auto& t) { return t.name == head; });
    ASSERT_NE(made, result.tensors.end());
    EXPECT_TRUE(made->damping.has_value()) << "solved under the Hessian of its inputs";
    if (!tied) {
      EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { run("{match: embed_tokens, bits: 4}"); },
                                                     "embed_tokens: output_hessian: true"));
    }
  }
}

TEST(OutputHessian, OfZerosLeavesEveryOutputAlone) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  auto settings = calib::example_settings();
  settings.model_hash = model::Checkpoint::open(dir / "model")->fingerprint();
  {
    calib::StatsWriter writer(dir / "calib.h5", settings);
    for (const auto& layer : test::layers_of(test::config_of(dir / "model"))) {
      calib::LayerStats stats = calib::example_layer(layer.module, layer.out, layer.in, 1);
      stats.sum_dydyt = Matrix<float>(layer.out, layer.out);
      writer.add(stats);
    }
    writer.commit();
  }
  for (const char* more : {"", ", codebook_iterations: 2", ", window_bits: 6, codebook_iterations: 1"}) {
    quantize(dir / "model", dir / "with", defaults(std::string(kCoupled) + more), {dir / "calib.h5"});
    quantize(dir / "model", dir / "without", defaults(std::string(kAlone) + more), {dir / "calib.h5"});
    EXPECT_TRUE(same_weights(dir / "with", dir / "without", dir / "model")) << more;
  }
}

TEST(OutputHessian, OutputsWithoutGradientsAreFine) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  const auto dead_outputs = [](const model::Parameter& layer) {
    return std::array<std::size_t, 3>{0, 5, layer.out - 1};
  };
  auto settings = calib::example_settings();
  settings.model_hash = model::Checkpoint::open(dir / "model")->fingerprint();
  {
    calib::StatsWriter writer(dir / "calib.h5", settings);
    for (const auto& layer : test::layers_of(test::config_of(dir / "model"))) {
      calib::LayerStats stats = calib::example_layer(layer.module, layer.out, layer.in, 1);
      for (const std::size_t dead : dead_outputs(layer))
        for (std::size_t j = 0; j < layer.out; ++j) stats.sum_dydyt(dead, j) = stats.sum_dydyt(j, dead) = 0.0f;
      writer.add(stats);
    }
    writer.commit();
  }
  // Windows too, whose codes could serve the others at the cost of these.
  for (const char* more : {"", ", granularity: channel", ", window_bits: 6, codebook_iterations: 1"}) {
    quantize(dir / "model", dir / "out", defaults(std::string(kCoupled) + more), {dir / "calib.h5"});
    double error = 0.0, norm = 0.0;
    for (const auto& layer : test::layers_of(test::config_of(dir / "model"))) {
      const Matrix<float> w = weight_of(dir / "model", layer), made = weight_of(dir / "out", layer);
      for (const std::size_t dead : dead_outputs(layer))
        for (std::size_t j = 0; j < layer.in; ++j) {
          error += std::pow(static_cast<double>(w(dead, j)) - static_cast<double>(made(dead, j)), 2);
          norm += std::pow(static_cast<double>(w(dead, j)), 2);
        }
    }
    EXPECT_LT(error, 0.7 * norm) << more;
  }
}

TEST(OutputHessian, GoesWithSequentialWhichTakesItFromTheFile) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  calibrate(dir / "model", dir / "outputs.h5", {.output_hessian = true});
  const auto run = [&](const char* output, const char* keys, std::vector<fs::path> files) {
    return quantize_model({.model = dir / "model",
                           .output = dir / output,
                           .recipe = Recipe::parse(fmt::format("defaults: {{{}, sequential: true}}", keys), "recipe"),
                           .calibration = std::move(files),
                           .text = text(),
                           .overwrite = true,
                           .progress = {}});
  };
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { run("with", kCoupled, {}); }, "output_hessian: true",
                                                 "--collect output-hessian"));
  run("with", kCoupled, {dir / "outputs.h5"});
  run("without", kAlone, {});
  EXPECT_FALSE(same_weights(dir / "with", dir / "without", dir / "model"));
  EXPECT_NO_THROW(test::logits_of_model(dir / "with"));
}

TEST(OutputHessian, GivesTheSameBytesWithAnyNumberOfThreadsAndAfterAStop) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  calibrate(dir / "model", dir / "calib.h5", calib::kEverything);
  const std::string recipe = defaults(
      "bits: 2, window_bits: 6, scaling: std, shifting: true, hessian: guided-centred, "
      "solver: coordinate-descent, codebook_iterations: 1, output_hessian: true");
  for (const std::size_t threads : {1u, 3u}) {
    set_thread_count(threads);
    quantize(dir / "model", dir / fmt::format("out{}", threads), recipe, {dir / "calib.h5"});
  }
  set_thread_count(0);
  const auto expected = test::files_without_times(dir / "out1");
  EXPECT_EQ(test::files_without_times(dir / "out3"), expected);
  struct Stop {};
  EXPECT_THROW(quantize_model({.model = dir / "model",
                               .output = dir / "stopped",
                               .recipe = Recipe::parse(recipe, "recipe"),
                               .calibration = {dir / "calib.h5"},
                               .progress =
                                   [](const ProgressUpdate& update) {
                                     if (update.done > 0.4 * update.total) throw Stop();
                                   }}),
               Stop);
  quantize(dir / "model", dir / "stopped", recipe, {dir / "calib.h5"});
  EXPECT_EQ(test::files_without_times(dir / "stopped"), expected);
}

TEST(OutputHessian, CountsInTheMemoryThatAWeightTakes) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  write_calibration(dir / "calib.h5", dir / "model");
  const auto checkpoint = model::Checkpoint::open(dir / "model");
  const std::vector<fs::path> files{dir / "calib.h5"};
  const Calibration calibration(files, *checkpoint);
  const auto bytes = [&](const char* keys) {
    const Plan plan = make_plan(checkpoint, checkpoint->architecture(), Recipe::parse(defaults(keys), "recipe"));
    std::vector<std::uint64_t> all;
    for (const QuantizeItem& item : plan.items) all.push_back(work_bytes(item, calibration));
    return all;
  };
  const auto with = bytes(kCoupled), without = bytes(kAlone);
  const auto layers = test::layers_of(checkpoint->architecture());
  ASSERT_EQ(with.size(), layers.size());
  for (std::size_t l = 0; l < layers.size(); ++l)  // H_O, its factor and the damped one; a product over the outputs
    EXPECT_GE(with[l] - without[l], 4 * (3 * layers[l].out * layers[l].out + layers[l].out * layers[l].in));
}

// Two of the four experts of a layer: one that no token chose, one that every token chose without a gradient coming
// back.
TEST(OutputHessian, ExpertsThatNoTokenChoseNeedNone) {
  const TempDir dir;
  model::synthesize_model(R"({"model_type": "mixtral", "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 12, "num_local_experts": 4,
    "num_experts_per_tok": 2, "hidden_act": "silu", "max_position_embeddings": 64})",
                          dir / "model", {});
  auto settings = calib::example_settings();
  settings.model_hash = model::Checkpoint::open(dir / "model")->fingerprint();
  const auto of = [](const model::Parameter& layer, std::size_t expert) {
    return layer.expert && *layer.expert == expert;
  };
  {
    calib::StatsWriter writer(dir / "calib.h5", settings);
    for (const auto& layer : test::layers_of(test::config_of(dir / "model"))) {
      calib::LayerStats stats = calib::example_layer(layer.module, layer.out, layer.in, 1);
      if (of(layer, 1)) {
        calib::LayerSums none(layer.module, layer.out, layer.in, calib::kEverything);
        none.samples = stats.samples;
        stats = none.rounded();
      }
      if (of(layer, 2)) stats.sum_dydyt = Matrix<float>(layer.out, layer.out);
      writer.add(stats);
    }
    writer.commit();
  }
  const auto result = quantize(dir / "model", dir / "coupled", defaults(kCoupled), {dir / "calib.h5"});
  quantize(dir / "model", dir / "alone", defaults(kAlone), {dir / "calib.h5"});
  quantize(dir / "model", dir / "nearest", "defaults: {bits: 2}", {});
  std::size_t experts = 0;
  for (const auto& layer : test::layers_of(test::config_of(dir / "model"))) {
    if (!layer.expert) continue;
    ++experts;
    const auto same = [&](const char* other) {
      return static_cast<bool>(
          test::same_bits(weight_of(dir / "coupled", layer).values(), weight_of(dir / other, layer).values()));
    };
    EXPECT_EQ(same("nearest"), of(layer, 1)) << layer.module;
    EXPECT_EQ(same("alone"), of(layer, 1) || of(layer, 2)) << layer.module;
  }
  EXPECT_EQ(experts, 12u);
  ASSERT_EQ(result.rare_experts.size(), 3u);
  EXPECT_EQ(result.rare_experts[0].tokens, 0u);
  EXPECT_FALSE(without_statistics(Recipe::parse(defaults(kCoupled), "r").settings("x")).output_hessian);
  const TensorSettings best = without_statistics(Recipe::preset("best").settings("x"));
  EXPECT_EQ(best.weighting, Weighting::kNone);
  EXPECT_EQ(best.joint_iterations, 4u) << "nothing else refines its palettes";
}

}  // namespace
}  // namespace nibble::quant
