// Error feedback and coordinate descent as recipes ask for them, on little models: which Hessian reaches which weight,
// what is reported, what is refused.
#include <gtest/gtest.h>

#include "calib/stats/derived.h"
#include "calib/stats/stats_file.h"
#include "calib/stats/stats_writer.h"
#include "core/error.h"
#include "core/text/json.h"
#include "model/checkpoint/checkpoint.h"
#include "quant/algo/blocks/grid_columns.h"
#include "quant/algo/palettes/palette_columns.h"
#include "quant/algo/palettes/palettize.h"
#include "quant/algo/rounding/column_rounding.h"
#include "quant/algo/solve/error_feedback.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/layers.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using test::quantize;
using test::TempDir;
using test::weight_of;
using test::write_calibration;
namespace fs = std::filesystem;

Matrix<float> in_float(const Matrix<double>& h) {
  Matrix<float> result(h.rows(), h.cols());
  for (std::size_t i = 0; i < h.size(); ++i) result.data()[i] = static_cast<float>(h.data()[i]);
  return result;
}

Matrix<float> decoded(const ColumnRounding& rounding, const Matrix<std::uint8_t>& codes) {
  Matrix<float> values(codes.rows(), codes.cols());
  for (std::size_t i = 0; i < codes.rows(); ++i)
    for (std::size_t j = 0; j < codes.cols(); ++j) rounding.decode(j, i, {&codes(i, j), 1}, &values(i, j));
  return values;
}

TEST(Gptq, IsErrorFeedbackUnderTheHessianOfTheRecipe) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  write_calibration(dir / "calib.h5", dir / "model");
  const auto file = calib::StatsFile::open(dir / "calib.h5");
  const std::pair<const char*, calib::HessianKind> kinds[] = {
      {"plain", calib::HessianKind::kPlain},
      {"centred", calib::HessianKind::kCentred},
      {"guided", calib::HessianKind::kGuided},
      {"guided-centred", calib::HessianKind::kGuidedCentred},
  };
  for (const auto& [name, kind] : kinds) {
    SCOPED_TRACE(name);
    const std::string solver = fmt::format("bits: 2, solver: gptq, damping: 0.02, hessian: {}{}", name,
                                           std::string_view(name).ends_with("centred") ? ", shifting: true" : "");
    quantize(dir / "model", dir / "palette", fmt::format("defaults: {{{}}}", solver), {dir / "calib.h5"});
    quantize(dir / "model", dir / "uniform",
             fmt::format("defaults: {{format: uniform, zero_point: true, act_order: false, {}}}", solver),
             {dir / "calib.h5"});
    for (const auto& layer : test::layers_of(test::config_of(dir / "model"))) {
      const Matrix<float> w = weight_of(dir / "model", layer),
                          h = in_float(calib::hessian(file->read(layer.module), kind));
      const std::size_t parts = layer.module.ends_with("c_attn") ? 3 : 1, rows = layer.out / parts;
      for (std::size_t begin = 0; begin < layer.out; begin += rows) {
        const auto part = w.view().rows_slice(begin, rows);
        const auto expect_equal = [&](const char* made, ColumnRounding& rounding, bool act_order) {
          const auto factor = factor_hessian<float>(h.view(), {.damping = 0.02, .act_order = act_order});
          const auto expected = decoded(rounding, round_with_feedback(part, factor, rounding).codes);
          const Matrix<float> actual = weight_of(dir / made, layer);
          EXPECT_TRUE(test::same_bits(actual.values().subspan(begin * layer.in, rows * layer.in), expected.values()))
              << layer.module;
        };
        const Palettization palette = palettize(part, {}, {.bits = 2});
        PaletteRounding entries(palette.palettes, 0, {});
        expect_equal("palette", entries, true);
        GridRounding grid(part, {.bits = 2, .block = 0, .scale = BlockScale::kMinmax}, true);
        expect_equal("uniform", grid, false);
      }
    }
  }
}

// Sum over the tensors of the output error's square relative to what there was.
double output_error(const QuantizeResult& result) {
  double sum = 0.0;
  for (const TensorResult& tensor : result.tensors) sum += *tensor.output_error * *tensor.output_error;
  return sum;
}

TEST(Solvers, LowerTheOutputErrorStepByStep) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  write_calibration(dir / "calib.h5", dir / "model");
  const char* formats[] = {"bits: 2",
                           "bits: 2, granularity: channel-group, group_size: 4",
                           "bits: 2, granularity: channel",
                           "bits: 2, scaling: std, sign: search",
                           "bits: 2, outliers_sensitive: 0.01, outliers_large: 0.02",
                           "format: uniform, bits: 2",
                           "format: int4-block"};
  for (const std::string format : formats) {
    SCOPED_TRACE(format);
    const auto error_with = [&](const std::string& more) {
      return output_error(
          quantize(dir / "model", dir / "out", "defaults: {" + format + more + "}", {dir / "calib.h5"}));
    };
    const double nearest = error_with(""), gptq = error_with(", solver: gptq"),
                 descent = error_with(", solver: coordinate-descent");
    EXPECT_LT(gptq, nearest);
    EXPECT_LE(descent, gptq);
    if (format.starts_with("bits") && format.find("outliers") == std::string::npos) {
      EXPECT_LT(error_with(", solver: coordinate-descent, codebook_iterations: 2"), descent);
    }
  }
}

TEST(Shifting, UnderAGuidedCentredHessianUsesTheGuidedMean) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  write_calibration(dir / "calib.h5", dir / "model");
  const auto file = calib::StatsFile::open(dir / "calib.h5");
  for (const std::string hessian : {"centred", "guided-centred"}) {
    quantize(dir / "model", dir / "out", "defaults: {bits: 2, shifting: true, solver: gptq, hessian: " + hessian + "}",
             {dir / "calib.h5"});
    for (const auto& layer : test::layers_of(test::config_of(dir / "model"))) {
      const Matrix<float> w = weight_of(dir / "model", layer), approximation = weight_of(dir / "out", layer);
      std::vector<float> expected = test::bias_of(dir / "model", layer);
      const auto mean =
          calib::correction_mean(file->read(layer.module), hessian == "centred" ? calib::HessianKind::kCentred
                                                                                : calib::HessianKind::kGuidedCentred);
      for (std::size_t i = 0; i < layer.out; ++i) {
        double sum = 0.0;
        for (std::size_t j = 0; j < layer.in; ++j)
          sum += (static_cast<double>(w(i, j)) - static_cast<double>(approximation(i, j))) * mean[j];
        expected[i] += static_cast<float>(sum);
      }
      // Sums of at most 64 products in double, rounded to float once or twice.
      EXPECT_TRUE(test::all_near(test::bias_of(dir / "out", layer), expected, {.abs = 1e-6})) << layer.module;
    }
  }
}

TEST(Solvers, ReportDampingThatTheyNeededAndInputsThatSayNothing) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  auto settings = calib::example_settings();
  settings.model_hash = model::Checkpoint::open(dir / "model")->fingerprint();
  {
    calib::StatsWriter writer(dir / "calib.h5", settings);
    for (const auto& layer : test::layers_of(test::config_of(dir / "model"))) {
      calib::LayerStats stats = calib::example_layer(layer.module, layer.out, layer.in, 1);
      if (layer.module.ends_with("up_proj")) {  // two inputs are dead
        for (const std::size_t dead : {3u, 7u})
          for (std::size_t j = 0; j < layer.in; ++j) stats.sum_xxt(dead, j) = stats.sum_xxt(j, dead) = 0.0f;
      }
      if (layer.module.ends_with("down_proj"))  // indefinite: 2x + y and x + 2y of lengths that x and y have not
        for (std::size_t j = 0; j + 1 < layer.in; j += 2)
          stats.sum_xxt(j, j + 1) = stats.sum_xxt(j + 1, j) = 3.0f * stats.sum_xxt(j, j);
      writer.add(stats);
    }
    writer.commit();
  }
  const auto result = quantize(dir / "model", dir / "out", "defaults: {bits: 2, solver: gptq}", {dir / "calib.h5"});
  const auto json = nlohmann::json::parse(test::read_file(dir / "out" / "quantization.json")).at("tensors");
  for (std::size_t i = 0; i < result.tensors.size(); ++i) {
    const TensorResult& tensor = result.tensors[i];
    EXPECT_EQ(tensor.silent_inputs, tensor.name.ends_with("up_proj") ? 2u : 0u) << tensor.name;
    if (tensor.name.ends_with("down_proj")) {
      EXPECT_GT(tensor.damping, 0.1) << tensor.name;
    } else {
      EXPECT_EQ(tensor.damping, 0.01) << tensor.name;
    }
    EXPECT_EQ(json[i].at("damping"), *tensor.damping);
    EXPECT_EQ(json[i].at("silent_inputs"), *tensor.silent_inputs);
  }
  const auto nearest = quantize(dir / "model", dir / "out", "defaults: {bits: 2}", {dir / "calib.h5"});
  EXPECT_FALSE(nearest.tensors[0].damping || nearest.tensors[0].silent_inputs);
}

TEST(Solvers, RefuseToWorkWithoutTheirHessian) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  write_calibration(dir / "plain.h5", dir / "model",
                    {.activations = false, .fisher = false, .hessian = true, .guided_hessian = false});
  const auto refused = [&](const char* yaml, auto... words) {
    return test::throws_with<InvalidArgument>([&] { quantize(dir / "model", dir / "out", yaml, {dir / "plain.h5"}); },
                                              words...);
  };
  EXPECT_TRUE(refused("defaults: {solver: gptq, hessian: guided}", "hessian: guided", "--collect guided-hessian"));
  EXPECT_TRUE(refused("defaults: {solver: gptq, hessian: centred, shifting: true}", "--collect activations"));
  quantize(dir / "model", dir / "out", "defaults: {solver: gptq}", {dir / "plain.h5"});
}

TEST(Presets, ThatSolveRunWithoutFisherSensitivities) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  write_calibration(dir / "calib.h5", dir / "model",
                    {.activations = true, .hessian = true, .guided_hessian = true, .output_hessian = true});
  for (const auto preset : {"gptq", "scalar-one-shot", "windowed-one-shot", "best-one-shot"}) {
    const std::string nearest = fmt::format("defaults: {{bits: {}}}", Recipe::preset(preset).settings("x").bits);
    EXPECT_LT(output_error(quantize(dir / "model", dir / "out", Recipe::preset_text(preset), {dir / "calib.h5"})),
              output_error(quantize(dir / "model", dir / "out", nearest, {dir / "calib.h5"})))
        << preset;
  }
}

}  // namespace
}  // namespace nibble::quant
