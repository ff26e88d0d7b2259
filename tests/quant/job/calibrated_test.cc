// Recipes that build on calibration, end to end on little models: which statistics reach which weight, what shifting
// does to biases, what is refused.
#include <gtest/gtest.h>

#include <cmath>

#include "calib/stats/derived.h"
#include "calib/stats/stats_file.h"
#include "core/error.h"
#include "core/matrix/dtype.h"
#include "core/random.h"
#include "core/text/json.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/weights.h"
#include "quant/algo/kmeans/sensitivity.h"
#include "quant/algo/palettes/palettize.h"
#include "quant/job/quantize_model.h"
#include "quant/store/load_model.h"
#include "tests/export/export_support.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/layers.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using calib::StatisticSet;
using test::bias_of;
using test::config_of;
using test::quantize;
using test::TempDir;
using test::weight_of;
using test::write_calibration;
namespace fs = std::filesystem;
using Paths = std::vector<fs::path>;

constexpr StatisticSet kFisher{.activations = false, .fisher = true, .hessian = false, .guided_hessian = false};
constexpr StatisticSet kActivations{.activations = true, .fisher = false, .hessian = false, .guided_hessian = false};

TEST(FisherWeights, ReachTheirRowsOfGpt2sFusedLayer) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  write_calibration(dir / "calib.h5", dir / "model");
  quantize(dir / "model", dir / "out", "defaults: {bits: 2, weighting: fisher}", {dir / "calib.h5"});
  const auto file = calib::StatsFile::open(dir / "calib.h5");
  for (const auto& layer : test::layers_of(config_of(dir / "model"))) {
    const auto before = weight_of(dir / "model", layer), after = weight_of(dir / "out", layer);
    const auto fisher = calib::mean_fisher(file->read(layer.module));
    const std::size_t parts = layer.module.ends_with("c_attn") ? 3 : 1, rows = layer.out / parts;
    for (std::size_t begin = 0; begin < layer.out; begin += rows) {
      const auto weights = kmeans_weights(fisher.view().rows_slice(begin, rows));
      const auto expected = palettize(before.view().rows_slice(begin, rows), weights, {.bits = 2});
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < layer.in; ++j)
          ASSERT_EQ(after(begin + i, j), expected.palettes(0, expected.codes(i, j))) << layer.module;
    }
  }
}

TEST(InputWeights, AreTheSameForAllRows) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  write_calibration(dir / "calib.h5", dir / "model");
  const auto layer = test::layers_of(config_of(dir / "model")).back();
  const auto stats = calib::StatsFile::open(dir / "calib.h5")->read(layer.module);
  for (const auto& [yaml, per_input] :
       {std::pair{"defaults: {bits: 2, weighting: second-moment}", calib::second_moment(stats)},
        std::pair{"defaults: {bits: 2, weighting: magnitude}", calib::mean_magnitude(stats)}}) {
    quantize(dir / "model", dir / "out", yaml, {dir / "calib.h5"});
    Matrix<double> sensitivities(layer.out, layer.in);
    for (std::size_t i = 0; i < layer.out; ++i)
      std::copy(per_input.begin(), per_input.end(), sensitivities.row(i).begin());
    const auto before = weight_of(dir / "model", layer), after = weight_of(dir / "out", layer);
    const auto expected = palettize(before, kmeans_weights(sensitivities), {.bits = 2});
    for (std::size_t i = 0; i < after.size(); ++i)
      ASSERT_EQ(after.data()[i], expected.palettes(0, expected.codes.data()[i])) << yaml;
  }
}

// y = x Whatᵀ + b_final against the published form (x - mu) Whatᵀ + (b + mu Wᵀ).
TEST(Shifting, EqualsTheShiftedInputForm) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "gpt2");
  test::tiny_llama().write(dir / "llama");
  for (const auto name : {"gpt2", "llama"}) {
    write_calibration(dir / "calib.h5", dir / name);
    const auto file = calib::StatsFile::open(dir / "calib.h5");
    for (const auto yaml : {"defaults: {bits: 2, weighting: fisher, scaling: std, sign: flip, shifting: true}",
                            "defaults: {format: int4-block, shifting: true}"}) {
      quantize(dir / name, dir / "out", yaml, {dir / "calib.h5"});
      const auto provider = make_weight_provider(model::Checkpoint::open(dir / "out"));
      for (const auto& layer : test::layers_of(config_of(dir / name))) {
        const auto w = weight_of(dir / name, layer), approximation = weight_of(dir / "out", layer);
        const auto bias = bias_of(dir / name, layer);
        const auto mean = calib::mean_input(file->read(layer.module));
        Random random(3);
        Matrix<float> x(1, layer.in), y(1, layer.out);
        for (float& value : x.values()) value = static_cast<float>(0.5 + random.normal());
        provider->linear(layer)->forward(x, y);
        std::vector<float> expected(layer.out);
        for (std::size_t i = 0; i < layer.out; ++i) {
          double sum = bias[i];
          for (std::size_t j = 0; j < layer.in; ++j)
            sum += mean[j] * static_cast<double>(w(i, j)) +
                   (static_cast<double>(x(0, j)) - mean[j]) * static_cast<double>(approximation(i, j));
          expected[i] = static_cast<float>(sum);
        }
        // Llama's new biases are float16: half a unit in the 11th bit of biases below 1. GPT-2's stay float32, like the
        // sums of at most 64 products of size 1.
        const double rounding = name == std::string("llama") ? 0x1p-12 : 1e-5;
        EXPECT_TRUE(test::all_near(y.values(), expected, {.abs = rounding})) << layer.module << " " << yaml;
      }
    }
  }
}

TEST(Shifting, KeepsOtherRowsOfAFusedBias) {
  const TempDir dir;
  test::tiny_gpt2(test::f16_tensor, "transformer.").write(dir / "model");
  write_calibration(dir / "calib.h5", dir / "model");
  quantize(dir / "model", dir / "out", "layers: [{match: 'h.0.attn.c_attn.k', bits: 2, shifting: true}]",
           {dir / "calib.h5"});
  const auto layer = test::layers_of(config_of(dir / "model")).front();
  const auto before = bias_of(dir / "model", layer), after = bias_of(dir / "out", layer);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(before[i] == after[i], i < 16 || i >= 32) << "only k, rows 16 to 31, is shifted: " << i;
  EXPECT_EQ(model::Checkpoint::open(dir / "out")->tensor("h.0.attn.c_attn.bias").dtype, DType::kF16);
}

TEST(Shifting, CountsBiasesThatItAdds) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  write_calibration(dir / "calib.h5", dir / "model");
  const auto plain = quantize(dir / "model", dir / "plain", "{}", {dir / "calib.h5"});
  const auto shifted = quantize(dir / "model", dir / "out", "defaults: {shifting: true}", {dir / "calib.h5"});
  for (std::size_t i = 0; i < plain.tensors.size(); ++i) {
    const auto rows = weight_of(dir / "model", test::layers_of(config_of(dir / "model"))[i]).rows();
    EXPECT_EQ(shifted.tensors[i].stored_bits, plain.tensors[i].stored_bits + 16 * rows);
  }
  EXPECT_EQ(load_model(dir / "out").bits_per_weight, shifted.bits_per_weight);
  EXPECT_EQ(load_model(dir / "out").model_bits_per_weight, shifted.model_bits_per_weight);
}

TEST(Shifting, CountsBiasesThatBecameWider) {
  const TempDir dir;
  test::tiny_gpt2(test::bf16_tensor).write(dir / "model");
  write_calibration(dir / "calib.h5", dir / "model");
  const auto plain = quantize(dir / "model", dir / "plain", "{}", {dir / "calib.h5"});
  const auto shifted = quantize(dir / "model", dir / "out", "defaults: {shifting: true}", {dir / "calib.h5"});
  for (std::size_t i = 0; i < plain.tensors.size(); ++i) {
    const TensorResult& tensor = plain.tensors[i];
    const std::uint64_t rows = tensor.weights / (tensor.name.ends_with("mlp.c_proj") ? 64 : 16);
    EXPECT_EQ(shifted.tensors[i].stored_bits, tensor.stored_bits + 16 * rows) << tensor.name;
  }
  EXPECT_TRUE(test::near(load_model(dir / "out").bits_per_weight, shifted.bits_per_weight, {.rel = 1e-12}));
}

TEST(Shifting, SurvivesExport) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  write_calibration(dir / "calib.h5", dir / "model");
  for (const auto yaml : {"defaults: {shifting: true}", "layers: [{match: q_proj, shifting: true}]"}) {
    quantize(dir / "model", dir / "out", yaml, {dir / "calib.h5"});
    test::export_dequantized(dir / "out", dir / "float", true);
    EXPECT_TRUE(test::same_bits(test::logits_of_model(dir / "float"), test::logits_of_model(dir / "out"))) << yaml;
    const auto architecture = config_of(dir / "float");
    EXPECT_TRUE(architecture.blocks[0].attention.o.biased);
    EXPECT_EQ(architecture.blocks[0].mlp->up.biased, yaml == std::string("defaults: {shifting: true}"));
  }
  EXPECT_NE(test::logits_of_model(dir / "out"), test::logits_of_model(dir / "model"));
}

TEST(Errors, AreMeasuredWithTheStatistics) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  write_calibration(dir / "calib.h5", dir / "model");
  const auto layers = test::layers_of(config_of(dir / "model"));
  const auto file = calib::StatsFile::open(dir / "calib.h5");
  for (const auto& [yaml, kind] : {std::pair{"defaults: {bits: 2}", calib::HessianKind::kPlain},
                                   std::pair{"defaults: {bits: 2, shifting: true}", calib::HessianKind::kCentred}}) {
    const auto result = quantize(dir / "model", dir / "out", yaml, {dir / "calib.h5"});
    for (std::size_t l = 0; l < layers.size(); ++l) {
      const auto w = weight_of(dir / "model", layers[l]), approximation = weight_of(dir / "out", layers[l]);
      const auto stats = file->read(layers[l].module);
      const auto h = calib::hessian(stats, kind);
      const auto fisher = calib::mean_fisher(stats);
      double error = 0.0, output = 0.0, weighted = 0.0;
      for (std::size_t i = 0; i < w.rows(); ++i)
        for (std::size_t j = 0; j < w.cols(); ++j) {
          const auto difference = [&](std::size_t c) {
            return static_cast<double>(w(i, c)) - static_cast<double>(approximation(i, c));
          };
          weighted += fisher(i, j) * difference(j) * difference(j);
          for (std::size_t k = 0; k < w.cols(); ++k) {
            error += difference(j) * h(j, k) * difference(k);
            output += static_cast<double>(w(i, j)) * h(j, k) * static_cast<double>(w(i, k));
          }
        }
      ASSERT_TRUE(result.tensors[l].output_error && result.tensors[l].fisher_error);
      // The quadratic form is made of float products of up to 27 terms.
      EXPECT_TRUE(test::near(*result.tensors[l].output_error, std::sqrt(error / output), {.rel = 1e-5}));
      EXPECT_TRUE(test::near(*result.tensors[l].fisher_error, weighted, {.rel = 1e-12}));
    }
    const auto json = nlohmann::json::parse(test::read_file(dir / "out" / "quantization.json"));
    EXPECT_EQ(json.at("tensors").at(0).at("fisher_error"), *result.tensors[0].fisher_error);
  }
  const auto without = quantize(dir / "model", dir / "out", "{}", {});
  EXPECT_FALSE(without.tensors[0].output_error || without.tensors[0].fisher_error);
}

TEST(SeveralCalibrationFiles, GiveEachStatisticFromTheFirstThatHasIt) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  write_calibration(dir / "fisher.h5", dir / "model", kFisher, 1);
  write_calibration(dir / "means.h5", dir / "model", kActivations, 2);
  write_calibration(dir / "other.h5", dir / "model", calib::kEverything, 3);
  const auto yaml = "defaults: {bits: 2, weighting: fisher, scaling: std, shifting: true}";
  const auto logits = [&](Paths files) {
    quantize(dir / "model", dir / "out", yaml, std::move(files));
    return test::logits_of_model(dir / "out");
  };
  const auto expected = logits({dir / "fisher.h5", dir / "means.h5"});
  EXPECT_TRUE(test::same_bits(logits({dir / "means.h5", dir / "fisher.h5"}), expected));
  EXPECT_TRUE(test::same_bits(logits({dir / "means.h5", dir / "fisher.h5", dir / "other.h5"}), expected));
  EXPECT_FALSE(test::same_bits(logits({dir / "fisher.h5", dir / "other.h5"}), expected));
  const auto architecture = nlohmann::json::parse(test::read_file(dir / "out" / "config.json"));
  EXPECT_EQ(architecture.at("quantization_config").at("fingerprints").at("calibration").size(), 2u);
}

// Codes that leave the mean error to the bias, and the bias that pays it: by the same mean, of the Hessian's file.
TEST(SeveralCalibrationFiles, AMeanThatCodesWereSolvedForIsTheOneThatIsCorrected) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  write_calibration(dir / "means.h5", dir / "model", kActivations, 2);
  write_calibration(dir / "hessians.h5", dir / "model", calib::kEverything, 3);
  const auto yaml = "defaults: {bits: 2, solver: gptq, hessian: centred, shifting: true}";
  const auto logits = [&](Paths files) {
    quantize(dir / "model", dir / "out", yaml, std::move(files));
    return test::logits_of_model(dir / "out");
  };
  EXPECT_TRUE(test::same_bits(logits({dir / "means.h5", dir / "hessians.h5"}), logits({dir / "hessians.h5"})));
}

TEST(Calibration, OfAnotherModelIsRefused) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  test::tiny_llama(test::f16_tensor).write(dir / "other");
  write_calibration(dir / "calib.h5", dir / "other");
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { quantize(dir / "model", dir / "out", "{}", {dir / "calib.h5"}); }, "calib.h5", (dir / "model").string(),
      model::Checkpoint::open(dir / "model")->fingerprint(), model::Checkpoint::open(dir / "other")->fingerprint()));
}

TEST(Calibration, ThatLacksAStatisticIsRefusedWithTheCommandThatCollectsIt) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  write_calibration(dir / "means.h5", dir / "model", kActivations);
  write_calibration(dir / "fisher.h5", dir / "model", kFisher);
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { quantize(dir / "model", dir / "out", "defaults: {weighting: fisher}", {dir / "means.h5"}); },
      "h.0.attn.c_attn.q: weighting: fisher needs the statistic 'fisher' of layer 'h.0.attn.c_attn.q'", "means.h5",
      "--collect fisher"));
  for (const auto yaml : {"defaults: {shifting: true}", "defaults: {weighting: magnitude}"})
    EXPECT_TRUE(test::throws_with<InvalidArgument>(
        [&] { quantize(dir / "model", dir / "out", yaml, {dir / "fisher.h5"}); }, "'activations'"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { quantize(dir / "model", dir / "out", "layers: [{match: wte, weighting: fisher}]", {dir / "fisher.h5"}); },
      "wte: weighting: fisher", "layer 'lm_head'", "--collect fisher --head"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { quantize(dir / "model", dir / "out", "layers: [{match: wte, shifting: true}]", {dir / "means.h5"}); },
      "wte: shifting: true"));
  EXPECT_FALSE(fs::exists(dir / "out.partial")) << "refused before anything is written";
}

TEST(Resuming, IsForTheSameCalibrationOnly) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  write_calibration(dir / "a.h5", dir / "model", calib::kEverything, 1);
  write_calibration(dir / "b.h5", dir / "model", calib::kEverything, 2);
  const auto yaml = "defaults: {bits: 2, weighting: fisher, scaling: std, shifting: true}";
  quantize(dir / "model", dir / "expected-a", yaml, {dir / "a.h5"});
  quantize(dir / "model", dir / "expected-b", yaml, {dir / "b.h5"});
  for (const auto name : {"a", "b"}) {
    struct Stop {};
    EXPECT_THROW(quantize_model({.model = dir / "model",
                                 .output = dir / "out",
                                 .recipe = Recipe::parse(yaml, "recipe"),
                                 .calibration = {dir / "a.h5"},
                                 .overwrite = true,
                                 .progress =
                                     [](const ProgressUpdate& update) {
                                       if (update.done >= 1000.0) throw Stop();
                                     }}),
                 Stop);
    quantize(dir / "model", dir / "out", yaml, {dir / (std::string(name) + ".h5")});
    EXPECT_EQ(test::files_without_times(dir / "out"),
              test::files_without_times(dir / ("expected-" + std::string(name))));
  }
}

}  // namespace
}  // namespace nibble::quant
