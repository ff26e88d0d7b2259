// AWQ-style input scaling end to end on little models: the network stays the same, the scales are those of the formula,
// the errors fall, and what came out loads, exports and resumes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "calib/stats/derived.h"
#include "calib/stats/stats_file.h"
#include "core/error.h"
#include "core/text/json.h"
#include "eval/inspect/inspect_model.h"
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

using test::TempDir;
namespace fs = std::filesystem;

QuantizeResult quantize(const TempDir& dir, const std::string& yaml, const std::string& output = "out",
                        const ProgressSink& progress = {}) {
  return test::quantize(dir / "model", dir / output, yaml, {dir / "calib.h5"}, progress);
}

void write(const TempDir& dir, const test::TinyModel& model) {
  model.write(dir / "model");
  test::write_calibration(dir / "calib.h5", dir / "model");
}

// Blocks at 8 bits: so fine a grid that what remains of the difference is the grid's, not the scaling's.
constexpr const char* kFine = "defaults: {format: uniform, bits: 8, group_size: 16, input_scaling: awq}";

TEST(InputScaling, LeavesTheNetworkAsItWasButForQuantization) {
  for (const test::TinyModel& model : {test::tiny_gpt2(), test::tiny_llama()}) {
    const TempDir dir;
    write(dir, model);
    const auto result = quantize(dir, kFine);
    EXPECT_EQ(result.input_scaling.size(), 4u) << "two norms in each of two blocks";
    bool scaled = false;
    for (const auto& group : result.input_scaling) {
      scaled = scaled || group.exponent > 0.0;
      EXPECT_LE(group.output_error_after, group.output_error_before) << group.norm;
    }
    EXPECT_TRUE(scaled) << "or this test shows nothing";
    // Had the norms not been divided, logits would be off by the scales, tens of percent. 8-bit grids are off by about
    // 2^-9 of the largest weight of a block; a few layers of that are well below 2 percent.
    EXPECT_TRUE(
        test::relative_error_within(test::logits_of_model(dir / "out"), test::logits_of_model(dir / "model"), 0.02));
  }
}

TEST(InputScaling, DividesTheNormAndMultipliesTheWeightByTheScalesOfTheFormula) {
  const TempDir dir;
  write(dir, test::tiny_gpt2());
  const auto result = quantize(dir, kFine);
  const auto before = make_weight_provider(model::Checkpoint::open(dir / "model"));
  const auto after = make_weight_provider(model::Checkpoint::open(dir / "out"));
  const model::Architecture architecture = model::Checkpoint::open(dir / "model")->architecture();
  const auto file = calib::StatsFile::open(dir / "calib.h5");
  ASSERT_EQ(result.input_scaling.size(), 4u) << "two norms in each of two blocks";
  EXPECT_TRUE(std::any_of(result.input_scaling.begin(), result.input_scaling.end(), [](const auto& group) {
    return group.exponent > 0.0;
  })) << "or this test shows nothing";
  for (const auto& group : result.input_scaling) {
    const bool attention = group.norm.ends_with("ln_1");
    const std::string layer = group.norm.substr(0, 4) + (attention ? "attn.c_attn" : "mlp.c_fc");
    const auto magnitude = calib::mean_magnitude(file->read(attention ? layer + ".q" : layer));
    std::vector<double> s(16);
    for (std::size_t j = 0; j < 16; ++j) s[j] = std::pow(magnitude[j], group.exponent);
    const auto [least, most] = std::minmax_element(s.begin(), s.end());
    const double centre = std::sqrt(*least * *most);
    for (const char* suffix : {".weight", ".bias"}) {
      const model::Stored stored = model::whole_vector(group.norm + suffix, 16);
      const auto old_norm = before->vector(stored), new_norm = after->vector(stored);
      for (std::size_t j = 0; j < 16; ++j)  // two roundings to float, of s and of the quotient
        EXPECT_TRUE(test::near(static_cast<double>(new_norm[j]), static_cast<double>(old_norm[j]) / (s[j] / centre),
                               {.rel = 0x1p-22}));
    }
    std::vector<float> w = test::values_of(*before, architecture, layer);
    const std::vector<float> scaled = test::values_of(*after, architecture, layer);
    ASSERT_EQ(w.size(), attention ? 48u * 16 : 64u * 16);
    for (std::size_t i = 0; i < w.size(); ++i)
      w[i] = static_cast<float>(static_cast<double>(w[i]) * s[i % 16] / centre);
    // 8-bit grids: steps of 2/255 of the block's largest, which is some 2.5 times the rms; half a step at most.
    EXPECT_TRUE(test::relative_error_within(scaled, w, 0.01)) << layer;
  }
}

TEST(InputScaling, IsFoundInEveryFormatAndNeverRaisesTheErrorItLooksAt) {
  const TempDir dir;
  write(dir, test::tiny_llama());
  for (const std::string with : {"format: int4-block", "format: uniform, bits: 3", "format: palette, bits: 3",
                                 "format: palette, bits: 2, scaling: std, weighting: fisher, shifting: true",
                                 "format: uniform, bits: 3, solver: gptq"}) {
    const auto plain = quantize(dir, "defaults: {" + with + "}");
    const auto scaled = quantize(dir, "defaults: {" + with + ", input_scaling: awq}");
    double fell = 0.0;
    for (const auto& group : scaled.input_scaling) {
      EXPECT_LE(group.output_error_after, group.output_error_before) << with;
      fell += group.output_error_before - group.output_error_after;
    }
    EXPECT_GT(fell, 0.0) << with;
    for (std::size_t i = 0; i < plain.tensors.size(); ++i) {
      const std::string& name = plain.tensors[i].name;
      if (name.ends_with("o_proj") || name.ends_with("down_proj")) {
        EXPECT_EQ(scaled.tensors[i].output_error, plain.tensors[i].output_error) << name << " has no norm before it";
      }
    }
    EXPECT_EQ(scaled.bits_per_weight, plain.bits_per_weight) << "float32 norms stay as wide";
  }
}

TEST(InputScaling, CountsNormsThatBecameWider) {
  for (const auto make : {test::f16_tensor, test::bf16_tensor}) {
    const TempDir dir;
    write(dir, test::tiny_llama(make));
    const std::string defaults = "format: int4-block, shifting: true";
    const auto plain = quantize(dir, "defaults: {" + defaults + "}");
    const auto scaled = quantize(dir, "defaults: {" + defaults + ", input_scaling: awq}");
    double more = 0.0, weights = 0.0;
    for (const auto& group : scaled.input_scaling) {
      more += group.exponent > 0.0 ? 16.0 * 16 : 0.0;  // 16 bits more for each of 16 values
      const auto dtype = model::Checkpoint::open(dir / "out")->tensor(group.norm + ".weight").dtype;
      EXPECT_EQ(dtype == DType::kF32, group.exponent > 0.0);
    }
    EXPECT_GT(more, 0.0);
    for (const auto& tensor : plain.tensors) weights += static_cast<double>(tensor.weights);
    EXPECT_TRUE(test::near(scaled.bits_per_weight, plain.bits_per_weight + more / weights, {.rel = 1e-12}));
    EXPECT_TRUE(test::near(load_model(dir / "out").bits_per_weight, scaled.bits_per_weight, {.rel = 1e-12}));
  }
}

TEST(InputScaling, ExportsAndIsInspectedLikeAnyCheckpoint) {
  const TempDir dir;
  write(dir, test::tiny_gpt2(test::f16_tensor));
  quantize(dir, "defaults: {bits: 3, granularity: channel, input_scaling: awq}");
  test::export_dequantized(dir / "out", dir / "exported", false);
  // The export rounds norms and weights to float16 (2^-11), as quantization leaves them in float32.
  EXPECT_TRUE(
      test::relative_error_within(test::logits_of_model(dir / "exported"), test::logits_of_model(dir / "out"), 0.01));
  EXPECT_NO_THROW((void)eval::describe_model(dir / "out"));
  const auto json = nlohmann::json::parse(test::read_file(dir / "out" / "quantization.json"));
  EXPECT_EQ(json.at("input_scaling").size(), 4u);
  EXPECT_EQ(json.at("input_scaling")[0].at("norm"), "h.0.ln_1");
}

TEST(InputScaling, GoesOnAfterAKill) {
  const TempDir dir;
  write(dir, test::tiny_llama());
  const std::string yaml = "defaults: {bits: 2, input_scaling: awq}";
  quantize(dir, yaml, "expected");
  struct Stop {};
  for (const char* stage : {"scaling inputs", "quantizing"}) {
    EXPECT_THROW(quantize(dir, yaml, "out",
                          [&](const ProgressUpdate& at) {
                            if (at.stage == stage && at.done > 0.3 * at.total) throw Stop();
                          }),
                 Stop);
    EXPECT_FALSE(fs::exists(dir / "out"));
  }
  quantize(dir, yaml, "out");
  EXPECT_EQ(test::files_without_times(dir / "out"), test::files_without_times(dir / "expected"));
}

TEST(InputScaling, ConcernsAllLayersBehindANormOrNone) {
  const TempDir dir;
  write(dir, test::tiny_llama());
  const auto refused = [&](const std::string& yaml, std::string_view words) {
    return test::throws_with<InvalidArgument>([&] { quantize(dir, yaml); }, words);
  };
  EXPECT_TRUE(refused("layers: [{match: 'down_proj', input_scaling: awq}]", "whose input comes straight from a norm"));
  EXPECT_TRUE(refused("layers: [{match: 'q_proj', input_scaling: awq}]", "every layer that"));
  EXPECT_TRUE(refused("{defaults: {input_scaling: awq}, layers: [{match: 'v_proj', format: float16}]}", "float16"));
  EXPECT_NO_THROW(quantize(dir, "layers: [{match: 'gate_proj|up_proj', input_scaling: awq}]"));
  fs::remove(dir / "calib.h5");
  test::write_calibration(dir / "calib.h5", dir / "model", {.activations = true});
  EXPECT_TRUE(refused("defaults: {input_scaling: awq}", "input_scaling: awq needs the statistic 'hessian'"));
}

// Inputs that are scaled on the way are scaled when the budget is spent: their norms' bits are set aside before.
TEST(InputScaling, OnTheWayStaysWithinABudget) {
  const TempDir dir;
  write(dir, test::tiny_llama(test::f16_tensor));
  CalibrationText text{.tokens = {}, .window_tokens = 20, .fingerprint = "text"};
  for (std::size_t i = 0; i < 20 * 8; ++i) text.tokens.push_back(static_cast<TokenId>(i * 7 % 40));
  const auto at = [&](double bits) {
    const auto recipe =
        Recipe::parse(fmt::format("defaults: {{bits: 3, input_scaling: awq, solver: gptq, sequential: true}}\n"
                                  "budget: {{bits_per_weight: {}, bits: [2, 3, 4, 5, 6], granularity: [tensor], "
                                  "estimate: guided-hessian}}",
                                  bits),
                      "recipe");
    return quantize_model({.model = dir / "model",
                           .output = dir / "out",
                           .recipe = recipe,
                           .calibration = {dir / "calib.h5"},
                           .text = text,
                           .overwrite = true});
  };
  bool scaled = false;
  for (const double bits : {4.5, 5.0, 5.5, 6.0}) {
    const auto result = at(bits);
    EXPECT_LE(result.bits_per_weight, bits);
    for (const auto& group : result.input_scaling) scaled = scaled || group.exponent > 0.0;
  }
  EXPECT_TRUE(scaled) << "or no norm became wider";
}

}  // namespace
}  // namespace nibble::quant
