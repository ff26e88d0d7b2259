// `sequential: true` on little models: every layer sees the inputs that the quantized layers before it give, biases
// take accumulated drift along, kills do not change the bytes.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "quant/job/quantize_model.h"
#include "quant/store/load_model.h"
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

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 30;

// Of as many kinds of tokens.
CalibrationText text(std::size_t windows = 6, std::uint64_t kinds = 40) {
  return test::random_text(3, windows, 20, kinds);
}

QuantizeResult quantize_with(CalibrationText text, const TempDir& dir, const std::string& yaml,
                             const std::string& output, const ProgressSink& progress = {},
                             std::uint64_t memory_bytes = kPlenty) {
  return quantize_model({.model = dir / "model",
                         .output = dir / output,
                         .recipe = Recipe::parse(yaml, "recipe"),
                         .calibration = {},
                         .text = std::move(text),
                         .overwrite = true,
                         .memory_bytes = memory_bytes,
                         .progress = progress});
}

QuantizeResult quantize(const TempDir& dir, const std::string& yaml, const std::string& output = "out",
                        const ProgressSink& progress = {}, std::uint64_t memory_bytes = kPlenty) {
  return quantize_with(text(), dir, yaml, output, progress, memory_bytes);
}

// The inputs of a layer over the text, in the model of `directory`: of an expert's, those of the tokens that chose it.
Matrix<double> inputs_of(const fs::path& directory, const std::string& module, std::size_t width) {
  const auto loaded = load_model(directory);
  const CalibrationText windows = text();
  Matrix<double> inputs;
  std::vector<std::size_t> starts;
  for (std::size_t t = 0; t <= windows.tokens.size(); t += windows.window_tokens) starts.push_back(t);
  model::Hooks<float> hooks;
  hooks.on_linear_input = [&](const std::string& name, MatrixView<const float> x, const model::HookRows&) {
    if (name != module) return;
    inputs = Matrix<double>(x.rows(), width);
    for (std::size_t r = 0; r < x.rows(); ++r)
      for (std::size_t c = 0; c < x.cols(); ++c) inputs(r, c) = static_cast<double>(x(r, c));
  };
  const std::vector<std::size_t> rows{0};
  loaded.transformer->forward(
      {windows.tokens, starts}, rows, [](auto, auto) {}, {}, &hooks);
  return inputs;
}

// (tokens, hidden): what leaves the last block.
Matrix<double> stream_of(const fs::path& directory, const CalibrationText& windows) {
  const auto loaded = load_model(directory);
  const model::Model& model = *loaded.transformer;
  std::vector<std::size_t> starts;
  for (std::size_t t = 0; t <= windows.tokens.size(); t += windows.window_tokens) starts.push_back(t);
  const model::Batch batch{windows.tokens, starts};
  Matrix<float> x(windows.tokens.size(), model.architecture().hidden);
  model.embed(batch, x.view());
  for (std::size_t block = 0; block < model.architecture().blocks.size(); ++block)
    model.forward_block(block, batch, x.view(), {}, nullptr);
  Matrix<double> stream(x.rows(), x.cols());
  std::copy_n(x.data(), x.size(), stream.data());
  return stream;
}

// Squared, of all of it.
double stream_error(const fs::path& directory, const CalibrationText& windows, const Matrix<double>& expected) {
  const Matrix<double> stream = stream_of(directory, windows);
  double sum = 0.0;
  for (std::size_t i = 0; i < stream.size(); ++i)
    sum += (stream.data()[i] - expected.data()[i]) * (stream.data()[i] - expected.data()[i]);
  return sum;
}

std::vector<float> weight_of(const fs::path& directory, const std::string& module) {
  const auto checkpoint = model::Checkpoint::open(directory);
  return test::values_of(*make_weight_provider(checkpoint), checkpoint->architecture(), module);
}

struct MeasuredLayer {
  std::string name;
  std::size_t out, in;
};

std::vector<float> bias_of(const fs::path& directory, const MeasuredLayer& layer) {
  const auto weights = make_weight_provider(model::Checkpoint::open(directory));
  const std::string name = layer.name + ".bias";
  return weights->contains(name) ? weights->vector(model::whole_vector(name, layer.out))
                                 : std::vector<float>(layer.out);
}

// In the finished model the layers before a layer are those that were in place when its turn came. How many layers were
// compared: all but those of rare experts. Errors under the float model's inputs are `apart` from those at least.
std::size_t expect_errors_under_quantized_inputs(const test::TinyModel& model, const std::vector<MeasuredLayer>& layers,
                                                 double apart = 1e-3) {
  const TempDir dir;
  model.write(dir / "model");
  const auto result = quantize(dir, "defaults: {bits: 2, sequential: true}");
  std::size_t compared = 0;
  for (const auto& [name, out, in] : layers) {
    if (std::any_of(result.rare_experts.begin(), result.rare_experts.end(),
                    [&, name = name](const auto& rare) { return rare.name == name; }))
      continue;
    const auto w = weight_of(dir / "model", name), q = weight_of(dir / "out", name);
    const Matrix<double> quantized = inputs_of(dir / "out", name, in), plain = inputs_of(dir / "model", name, in);
    const auto error_under = [&, out = out, in = in](const Matrix<double>& x) {
      double error = 0.0, output = 0.0;
      for (std::size_t t = 0; t < x.rows(); ++t)
        for (std::size_t i = 0; i < out; ++i) {
          double y = 0.0, d = 0.0;
          for (std::size_t j = 0; j < in; ++j) {
            const double a = static_cast<double>(w[i * in + j]), b = static_cast<double>(q[i * in + j]);
            y += x(t, j) * a, d += x(t, j) * (a - b);
          }
          output += y * y, error += d * d;
        }
      return std::sqrt(error / output);
    };
    const auto tensor = std::find_if(result.tensors.begin(), result.tensors.end(),
                                     [&, name = name](const auto& t) { return t.name == name; });
    if (tensor == result.tensors.end()) throw std::logic_error(name);
    // A Hessian in float, and products in float: 1e-5 leaves room for a hundred roundings.
    EXPECT_TRUE(test::near(tensor->output_error.value(), error_under(quantized), {.rel = 1e-5})) << name;
    EXPECT_FALSE(test::near(tensor->output_error.value(), error_under(plain), {.rel = apart})) << name;
    ++compared;
  }
  return compared;
}

TEST(Sequential, MeasuresErrorsUnderTheInputsThatTheQuantizedLayersBeforeGive) {
  const std::vector<MeasuredLayer> layers = {{"model.layers.0.self_attn.o_proj", 16, 16},
                                             {"model.layers.0.mlp.down_proj", 16, 27},
                                             {"model.layers.1.self_attn.k_proj", 8, 16},
                                             {"model.layers.1.mlp.up_proj", 27, 16}};
  EXPECT_EQ(expect_errors_under_quantized_inputs(test::tiny_llama(), layers), layers.size());
}

TEST(Sequential, GateAndUpHaveTheInputOfAttentionWhereOneNormFeedsBoth) {
  const std::vector<MeasuredLayer> layers = {{"model.layers.1.mlp.gate_proj", 27, 16},
                                             {"model.layers.1.self_attn.k_proj", 8, 16},
                                             {"model.layers.1.self_attn.o_proj", 16, 16},
                                             {"model.layers.1.mlp.up_proj", 27, 16},
                                             {"model.layers.1.mlp.down_proj", 16, 27}};
  EXPECT_EQ(expect_errors_under_quantized_inputs(test::tiny_cohere(), layers), layers.size());
}

TEST(Sequential, MeasuresExpertsUnderTheTokensThatChoseThem) {
  std::vector<MeasuredLayer> layers;
  for (const char* expert : {"0.", "1.", "2."})  // too few tokens choose the last
    for (const char* block : {"model.layers.0.", "model.layers.1."}) {
      const std::string name = std::string(block) + "block_sparse_moe.experts." + expert;
      layers.push_back({name + "w1", 12, 16});
      layers.push_back({name + "w2", 16, 12});
      layers.push_back({name + "w3", 12, 16});
    }
  // Of so many layers with few tokens each one is nearer by chance; 1e-4 is ten times what sums in float differ by.
  EXPECT_GE(expect_errors_under_quantized_inputs(test::tiny_mixtral(), layers, 1e-4), 9u);
}

void expect_mean_outputs_of_the_float_model(const char* recipe) {
  const std::pair<test::TinyModel, MeasuredLayer> cases[] = {
      {test::tiny_gpt2(), {"h.1.mlp.c_proj", 16, 64}},
      {test::tiny_llama(), {"model.layers.1.mlp.down_proj", 16, 27}},
      {test::tiny_cohere(), {"model.layers.1.mlp.up_proj", 27, 16}},
  };
  for (const auto& [model, layer] : cases) {
    const TempDir dir;
    model.write(dir / "model");
    quantize(dir, recipe);
    const auto& [name, out, in] = layer;
    const auto w = weight_of(dir / "model", name), q = weight_of(dir / "out", name);
    const Matrix<double> now = inputs_of(dir / "out", name, in), then = inputs_of(dir / "model", name, in);
    const auto before = bias_of(dir / "model", layer), after = bias_of(dir / "out", layer);
    for (std::size_t i = 0; i < out; ++i) {
      double mean_then = before[i], mean_now = after[i], size = 1.0;
      for (std::size_t t = 0; t < now.rows(); ++t)
        for (std::size_t j = 0; j < in; ++j) {
          const double tokens = static_cast<double>(now.rows());
          mean_then += then(t, j) * static_cast<double>(w[i * in + j]) / tokens;
          mean_now += now(t, j) * static_cast<double>(q[i * in + j]) / tokens;
          size += std::abs(then(t, j) * static_cast<double>(w[i * in + j])) / tokens;
        }
      // The mean output is what it was, to the float16 that new biases are stored in (2^-11) and sums in float.
      EXPECT_TRUE(test::near(mean_now, mean_then, {.abs = 1e-3 * size})) << name << " " << i;
    }
  }
}

TEST(Sequential, ShiftedBiasesRemoveTheDriftOfTheMean) {
  expect_mean_outputs_of_the_float_model("defaults: {bits: 2, sequential: true, shifting: true}");
}

TEST(Sequential, ShiftedBiasesRemoveTheDriftOfTheMeanBesideCorrectedWeights) {
  expect_mean_outputs_of_the_float_model(
      "defaults: {bits: 2, solver: gptq, hessian: centred, sequential: true, shifting: true, drift_correction: 1}");
}

// The MLP's weights do not make up for drift, and of those that share an input with them or with each other some do.
constexpr const char* kPartlyCorrected =
    "defaults: {format: uniform, bits: 2, solver: gptq, hessian: centred, shifting: true, sequential: true, "
    "drift_correction: 1, input_scaling: awq}\n"
    "layers:\n"
    "  - {match: 'mlp|v_proj', drift_correction: 0}\n"
    "  - {match: 'k_proj', hessian: plain, shifting: false}\n";

TEST(Sequential, ShiftedBiasesRemoveTheDriftOfTheMeanBesideSomeCorrectedWeights) {
  expect_mean_outputs_of_the_float_model(kPartlyCorrected);
}

constexpr const char* kEverything =
    "defaults: {format: uniform, bits: 2, solver: gptq, hessian: centred, shifting: true, sequential: true, "
    "input_scaling: awq}";
constexpr const char* kCorrected =
    "defaults: {format: uniform, bits: 2, solver: gptq, hessian: centred, shifting: true, sequential: true, "
    "drift_correction: 1, input_scaling: awq}";

void expect_the_same_bytes_after_kills(const char* recipe) {
  for (const bool gpt2 : {true, false}) {
    const TempDir dir;
    (gpt2 ? test::tiny_gpt2() : test::tiny_llama()).write(dir / "model");
    const auto expected_result = quantize(dir, recipe, "expected");
    EXPECT_EQ(expected_result.input_scaling.size(), 4u);
    const auto expected = test::files_without_times(dir / "expected");
    // So little memory that the residual stream goes to disk.
    const std::uint64_t least = test::least_memory(dir / "model", text());
    quantize(dir, recipe, "out", {}, least);
    EXPECT_EQ(test::files_without_times(dir / "out"), expected);
    struct Stop {};
    for (const std::uint64_t memory : {kPlenty, least}) {
      fs::remove_all(dir / "out");
      for (const double share : {0.2, 0.7}) {
        EXPECT_THROW(quantize(
                         dir, recipe, "out",
                         [&](const ProgressUpdate& at) {
                           if (at.done > share * at.total) throw Stop();
                         },
                         memory),
                     Stop);
        EXPECT_FALSE(fs::exists(dir / "out"));
      }
      quantize(dir, recipe, "out", {}, memory);
      EXPECT_EQ(test::files_without_times(dir / "out"), expected);
    }
  }
}

TEST(Sequential, GoesOnAfterAKillAndEndsInTheSameBytesInMemoryAndOnDisk) {
  expect_the_same_bytes_after_kills(kEverything);
}

TEST(Sequential, GoesOnAfterAKillCorrectingDrift) { expect_the_same_bytes_after_kills(kCorrected); }

TEST(Sequential, GoesOnAfterAKillCorrectingSomeDrift) { expect_the_same_bytes_after_kills(kPartlyCorrected); }

TEST(Sequential, WarnsOfDriftThatIsLearnedFromTheSameTextTwice) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  const auto warned = [&](CalibrationText windows, const std::string& correction) {
    const std::string recipe = "defaults: {format: uniform, bits: 3, solver: gptq, sequential: true" + correction + "}";
    return warnings(quantize_with(std::move(windows), dir, recipe, "out"), "model");
  };
  CalibrationText twice = text(6);
  std::copy_n(twice.tokens.begin(), 40, twice.tokens.begin() + 60);  // windows 3 and 4 are 0 and 1
  const auto sentences = warned(twice, ", drift_correction: 1");
  ASSERT_EQ(sentences.size(), 1u);
  EXPECT_NE(sentences[0].find("67 % of the tokens of every other window"), std::string::npos) << sentences[0];
  EXPECT_TRUE(warned(twice, "").empty());
  EXPECT_TRUE(warned(text(6), ", drift_correction: 1").empty());
}

// Nothing is chosen by what is collected on the way, which is left to tell errors.
TEST(Sequential, WarnsWhereNoWeightTakesWhatItCollects) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  const auto warned = [&](const std::string& recipe) { return warnings(quantize(dir, recipe), "model"); };
  const std::string none[] = {
      "defaults: {bits: 2, sequential: true}",
      "defaults: {format: uniform, bits: 2, search: error, sequential: true}",
      "{defaults: {bits: 2, solver: gptq}, layers: [{match: ., solver: nearest, sequential: true}]}",
  };
  for (const std::string& recipe : none) {
    const auto sentences = warned(recipe);
    ASSERT_EQ(sentences.size(), 1u) << recipe;
    EXPECT_NE(sentences[0].find("sequential: no layer that says true takes the statistics"), std::string::npos)
        << sentences[0];
  }
  quantize(dir, none[0], "sequential");
  quantize_model({.model = dir / "model",
                  .output = dir / "plain",
                  .recipe = Recipe::parse("defaults: {bits: 2}", "recipe"),
                  .memory_bytes = kPlenty,
                  .progress = {}});
  EXPECT_TRUE(test::read_file(dir / "sequential" / "model.safetensors") ==
              test::read_file(dir / "plain" / "model.safetensors"));
  for (const char* recipe :
       {"defaults: {bits: 2, solver: gptq, sequential: true}", "defaults: {bits: 2, shifting: true, sequential: true}",
        "defaults: {bits: 2, weighting: second-moment, sequential: true}",
        "defaults: {format: uniform, bits: 2, search: hessian, sequential: true}",
        "defaults: {bits: 2, input_scaling: awq, sequential: true}",
        "{defaults: {bits: 2, sequential: true}, layers: [{match: q_proj, solver: gptq}]}"})
    EXPECT_TRUE(warned(recipe).empty()) << recipe;
}

// Of a mixture attention makes up for drift, and experts, whose biases are shifted, do not.
TEST(Sequential, MixturesMakeUpForDriftInAttention) {
  const TempDir dir;
  test::tiny_mixtral().write(dir / "model");
  constexpr const char* kPlain =
      "defaults: {format: uniform, bits: 2, solver: gptq, hessian: centred, shifting: true, sequential: true}";
  const CalibrationText windows = text(200, 6);
  quantize_with(windows, dir, kPlain, "plain");
  quantize_with(windows, dir, std::string(kPlain).insert(std::strlen(kPlain) - 1, ", drift_correction: 1"), "out");
  const Matrix<double> expected = stream_of(dir / "model", windows);
  const auto error = [&](const char* directory) { return stream_error(dir / directory, windows, expected); };
  EXPECT_LT(error("out"), 0.9 * error("plain"));
}

// What a layer makes of drifted inputs is nearer to what the float model's makes of its own. The first layers, whose
// inputs have not drifted, are those without correction to the bit.
void expect_corrected(const std::string& recipe) {
  const std::pair<test::TinyModel, std::array<MeasuredLayer, 2>> cases[] = {
      {test::tiny_gpt2(), {{{"h.0.attn.c_attn.q", 16, 16}, {"h.1.mlp.c_fc", 64, 16}}}},
      {test::tiny_llama(), {{{"model.layers.0.self_attn.q_proj", 16, 16}, {"model.layers.1.mlp.up_proj", 27, 16}}}},
  };
  for (const auto& [model, layers] : cases) {
    const TempDir dir;
    model.write(dir / "model");
    quantize(dir, recipe + "}", "plain");
    quantize(dir, recipe + ", drift_correction: 1}", "corrected");
    const auto& [first, last] = layers;
    EXPECT_EQ(weight_of(dir / "plain", first.name), weight_of(dir / "corrected", first.name));
    const auto w = weight_of(dir / "model", last.name), before = bias_of(dir / "model", last);
    const Matrix<double> x = inputs_of(dir / "model", last.name, last.in);
    const auto error = [&](const char* directory) {
      const auto q = weight_of(dir / directory, last.name), after = bias_of(dir / directory, last);
      const Matrix<double> drifted = inputs_of(dir / directory, last.name, last.in);
      double sum = 0.0;
      for (std::size_t t = 0; t < x.rows(); ++t)
        for (std::size_t i = 0; i < last.out; ++i) {
          double difference = static_cast<double>(before[i]) - static_cast<double>(after[i]);
          for (std::size_t j = 0; j < last.in; ++j)
            difference += x(t, j) * static_cast<double>(w[i * last.in + j]) -
                          drifted(t, j) * static_cast<double>(q[i * last.in + j]);
          sum += difference * difference;
        }
      return sum;
    };
    EXPECT_LT(error("corrected"), 0.9 * error("plain")) << last.name;
  }
}

TEST(Sequential, CorrectsTheDriftOfInputs) {
  expect_corrected("defaults: {format: uniform, bits: 3, solver: gptq, sequential: true");
}

TEST(Sequential, CorrectsTheDriftOfInputsAboutTheirMeans) {
  expect_corrected(
      "defaults: {format: uniform, bits: 3, solver: gptq, hessian: centred, shifting: true, sequential: true");
}

// The residual stream behind the last block, which layers that are added to it are asked to bring back to the float
// model's: where they follow each other, where they stand side by side, and where what is added is multiplied before.
TEST(Sequential, CorrectsTheDriftOfTheResidualStream) {
  test::TinyModel halved = test::tiny_llama();
  const std::string llama = R"("llama")";
  halved.config_json.replace(halved.config_json.find(llama), llama.size(), R"("granite", "residual_multiplier": 0.5)");
  struct Case {
    test::TinyModel model;
    std::uint64_t kinds;
    double limit;  // halfway between what is left with the correction of inputs alone and with that of the stream too
  };
  // 4,000 tokens for 64 inputs, of few kinds, so that inputs foretell drift: there is something to learn.
  for (const auto& [model, kinds, limit] : {Case{test::tiny_gpt2(), 6, 0.31}, Case{test::tiny_llama(), 3, 0.24},
                                            Case{test::tiny_cohere(), 6, 0.42}, Case{halved, 3, 0.285}}) {
    const TempDir dir;
    model.write(dir / "model");
    const std::string plain =
        "defaults: {format: uniform, bits: 3, solver: gptq, hessian: centred, shifting: true, sequential: true";
    const CalibrationText windows = text(200, kinds);
    quantize_with(windows, dir, plain + "}", "plain");
    quantize_with(windows, dir, plain + ", drift_correction: 1}", "corrected");
    const Matrix<double> expected = stream_of(dir / "model", windows);
    const auto error = [&](const char* directory) { return stream_error(dir / directory, windows, expected); };
    EXPECT_LT(error("corrected"), limit * error("plain"));
  }
}

// Which experts were rare is found out on the way: a run that goes on has to know it of the blocks that are done.
TEST(Sequential, GoesOnAfterAKillKnowingTheRareExperts) {
  const TempDir dir;
  test::tiny_mixtral().write(dir / "model");
  constexpr const char* kRecipe =
      "defaults: {format: uniform, bits: 2, solver: gptq, shifting: true, sequential: true}\n"
      "tuning: {epochs: 1, learning_rate: 0.01}";
  const auto expected_result = quantize(dir, kRecipe, "expected");
  EXPECT_EQ(expected_result.rare_experts.size(), 6u);
  const auto expected = test::files_without_times(dir / "expected");
  for (const std::uint64_t memory : {kPlenty, test::least_memory(dir / "model", text())}) {
    for (const double share : {0.7, 1.0})
      test::stop_quantizing(share, [&](const ProgressSink& sink) { quantize(dir, kRecipe, "out", sink, memory); });
    quantize(dir, kRecipe, "out", {}, memory);
    EXPECT_EQ(test::files_without_times(dir / "out"), expected);
  }
}

// An expert that is not shifted has no bias, and none is counted.
TEST(Sequential, RareExpertsGetNoBiases) {
  const TempDir dir;
  test::tiny_mixtral().write(dir / "model");
  const auto recipe = [](const char* shifting) {
    return fmt::format("defaults: {{format: uniform, bits: 2, solver: gptq, sequential: true, shifting: {}}}",
                       shifting);
  };
  const auto shifted = quantize(dir, recipe("true")), plain = quantize(dir, recipe("false"), "plain");
  ASSERT_EQ(shifted.rare_experts.size(), 6u);
  const auto checkpoint = model::Checkpoint::open(dir / "out");
  std::size_t biases = 0;
  for (std::size_t i = 0; i < shifted.tensors.size(); ++i) {
    const TensorResult &with = shifted.tensors[i], &without = plain.tensors[i];
    const bool rare = std::ranges::any_of(shifted.rare_experts, [&](const auto& r) { return r.name == with.name; });
    EXPECT_EQ(!checkpoint->contains(with.name + ".bias"), rare) << with.name;
    EXPECT_EQ(with.bits_per_weight == without.bits_per_weight, rare) << with.name;
    biases += rare ? 0u : 1u;
  }
  EXPECT_GT(biases, 0u);
}

// So little memory that the Hessians of a step's experts, 16 MB each, are collected in turns.
TEST(Sequential, GivesTheSameBytesWhateverNumberOfExpertsIsMeasuredTogether) {
  const TempDir dir;
  test::tiny_mixtral(1400).write(dir / "model");
  constexpr const char* kRecipe = "defaults: {bits: 2, weighting: second-moment, sequential: true}";
  const auto result = quantize_with(text(130), dir, kRecipe, "expected", {}, kPlenty);
  // But for the last one, experts are not rare: their down has statistics of more tokens than inputs.
  EXPECT_LT(result.rare_experts.size(), 2u * 3 + 3);
  const std::uint64_t least = test::least_memory(dir / "model", text(130));
  ASSERT_LT(least / 8, std::uint64_t{2} * 1400 * 1400 * 8) << "two Hessians would fit";
  quantize_with(text(130), dir, kRecipe, "out", {}, least);
  EXPECT_EQ(test::files_without_times(dir / "out"), test::files_without_times(dir / "expected"));
}

// A run goes on behind the last block that is done where the residual stream lies on disk.
TEST(Sequential, NormsAreToldInOneOrderAlsoAfterAKill) {
  const TempDir dir;
  test::tiny_llama(test::f32_tensor, 12).write(dir / "model");
  constexpr const char* kRecipe = "defaults: {bits: 3, input_scaling: awq, sequential: true}";
  const auto expected_result = quantize(dir, kRecipe, "expected");
  EXPECT_EQ(expected_result.input_scaling.size(), 24u);
  const std::uint64_t least = test::least_memory(dir / "model", text());
  struct Stop {};
  EXPECT_THROW(quantize(
                   dir, kRecipe, "out",
                   [](const ProgressUpdate& at) {
                     if (at.done > 0.95 * at.total) throw Stop();
                   },
                   least),
               Stop);
  quantize(dir, kRecipe, "out", {}, least);
  EXPECT_EQ(test::files_without_times(dir / "out"), test::files_without_times(dir / "expected"));
}

TEST(Sequential, GivesTheSameBytesWithAnyNumberOfThreads) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  std::map<std::string, std::map<std::string, std::string>> first;
  for (const std::size_t threads : {1u, 3u}) {
    set_thread_count(threads);
    for (const char* recipe : {kEverything, kCorrected}) {
      quantize(dir, recipe);
      const auto files = test::files_without_times(dir / "out");
      EXPECT_EQ(first.emplace(recipe, files).first->second, files) << threads << " threads";
    }
  }
  set_thread_count(0);
}

TEST(Sequential, LayersWithoutItTakeTheirTurn) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  const auto result = quantize(dir,
                               "defaults: {bits: 2, sequential: true}\n"
                               "layers:\n"
                               "  - {match: 'o_proj', sequential: false, bits: 4}\n"
                               "  - {match: 'gate_proj', format: float16}\n"
                               "  - {match: 'embed_tokens|lm_head', bits: 8, sequential: false}\n");
  EXPECT_EQ(result.tensors.size(), 16u);
  for (const auto& tensor : result.tensors)
    EXPECT_EQ(tensor.output_error.has_value(),
              tensor.name.find("o_proj") == std::string::npos && tensor.name.find("gate_proj") == std::string::npos &&
                  tensor.name.find("embed") == std::string::npos && tensor.name != "lm_head")
        << tensor.name;
  EXPECT_NO_THROW(test::logits_of_model(dir / "out"));
}

TEST(Sequential, LayersWithoutItTakeNothingFromThoseThatShareTheirInput) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  const auto result = quantize(dir, "defaults: {bits: 2}\nlayers:\n  - {match: q_proj, sequential: true}");
  for (const auto& tensor : result.tensors)
    EXPECT_EQ(tensor.output_error.has_value(), tensor.name.find("q_proj") != std::string::npos) << tensor.name;
}

TEST(Sequential, RefusesWhatItCannotDo) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  const auto refused = [&](const std::string& yaml, std::optional<CalibrationText> windows, std::string_view words,
                           std::uint64_t memory_bytes = kPlenty) {
    return test::throws_with<InvalidArgument>(
        [&] {
          quantize_model({.model = dir / "model",
                          .output = dir / "out",
                          .recipe = Recipe::parse(yaml, "recipe"),
                          .text = windows,
                          .memory_bytes = memory_bytes,
                          .progress = {}});
        },
        words);
  };
  EXPECT_TRUE(refused("defaults: {sequential: true}", std::nullopt, "needs text for that"));
  EXPECT_TRUE(refused("defaults: {bits: 3}", text(), "the recipe says of no layer"));
  EXPECT_TRUE(refused("defaults: {sequential: true, weighting: fisher}", text(), "needs the statistic 'fisher'"));
  EXPECT_TRUE(refused("defaults: {sequential: true, solver: gptq, hessian: guided}", text(), "no gradients"));
  EXPECT_TRUE(refused("defaults: {sequential: true}", text(), "sequential: false", 1 << 20));
  auto odd = text();
  odd.tokens.pop_back();
  EXPECT_TRUE(refused("defaults: {sequential: true}", odd, "no whole number of windows"));
  EXPECT_TRUE(refused("defaults: {format: uniform, bits: 3, solver: gptq, sequential: true, drift_correction: 1}",
                      text(1), "two windows of text or more, not 1"));
  EXPECT_FALSE(fs::exists(dir / "out.partial")) << "refused before anything is written";
}

}  // namespace
}  // namespace nibble::quant
