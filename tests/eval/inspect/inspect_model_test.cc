#include "eval/inspect/inspect_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/machine/thread_pool.h"
#include "quant/job/quantize_model.h"
#include "quant/store/load_model.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"

namespace nibble::eval {
namespace {

using test::TempDir;

// The definitions in plain loops over all values.
void expect_statistics(const ValueStatistics& actual, const std::vector<float>& values) {
  double sum = 0.0, squares = 0.0, largest = 0.0, n = 0.0, deviations = 0.0;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  std::uint64_t nans = 0, infinities = 0;
  for (const float v : values) {
    const double value = v;
    nans += std::isnan(v), infinities += std::isinf(v);
    if (!std::isfinite(v)) continue;
    n += 1, sum += value, squares += value * value;
    low = std::min(low, value), high = std::max(high, value), largest = std::max(largest, std::abs(value));
  }
  for (const float v : values)
    if (std::isfinite(v)) deviations += std::pow(static_cast<double>(v) - sum / n, 2);
  EXPECT_EQ(actual.nan_count, nans);
  EXPECT_EQ(actual.infinities, infinities);
  EXPECT_EQ(actual.min, low);
  EXPECT_EQ(actual.max, high);
  // Sums of n doubles in another order: relative error about n * 2^-53 of the sum of magnitudes, far below 1e-9.
  EXPECT_TRUE(test::near(actual.mean, sum / n, {.abs = 1e-9 * largest}));
  EXPECT_TRUE(test::near(actual.deviation, std::sqrt(deviations / n), {.rel = 1e-9}));
  EXPECT_TRUE(test::near(actual.outlier_ratio, largest / std::sqrt(squares / n), {.rel = 1e-9}));
}

TEST(ValueSums, FollowTheDefinitionsAlsoForALargeMeanAndBadValues) {
  auto values = test::normal_values(10'000, 3);
  for (float& value : values) value += 1000.0f;
  values[5] = std::numeric_limits<float>::quiet_NaN();
  values[9000] = -std::numeric_limits<float>::infinity();
  ValueSums sums;
  for (std::size_t begin = 0; begin < values.size(); begin += 700)
    sums.add(std::span(values).subspan(begin, std::min<std::size_t>(700, values.size() - begin)));
  expect_statistics(sums.statistics(), values);
}

TEST(ValueSums, OfNothingAreNotANumber) {
  ValueSums sums;
  EXPECT_TRUE(std::isnan(sums.statistics().mean));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  sums.add(std::span(&nan, 1));
  EXPECT_TRUE(std::isnan(sums.statistics().min));
  EXPECT_EQ(sums.statistics().nan_count, 1u);
}

const TensorDescription& find(const ModelDescription& model, std::string_view name) {
  for (const auto& tensor : model.tensors)
    if (tensor.name == name) return tensor;
  throw std::invalid_argument(std::string(name));
}

TEST(DescribeModel, CountsAndMeasuresAFloatModel) {
  const TempDir dir;
  auto source = test::tiny_gpt2(test::f16_tensor);
  source.tensors.push_back(test::f32_tensor("h.0.attn.bias", {1, 1, 24, 24}, std::vector<float>(576, 1.0f)));
  source.write(dir / "model");
  const auto model = describe_model(dir / "model");
  EXPECT_EQ(model.summary, "gpt2, 2 layers, width 16, 2 heads of 8, MLP 64, vocabulary 40, 24 positions, tied head");
  EXPECT_EQ(model.method, "float16");
  EXPECT_EQ(model.recipe, "");
  EXPECT_EQ(model.tensors.size(), 2u + 2 * 12 + 2);
  EXPECT_EQ(model.bytes, model.parameters * 2) << "the mask is no parameter";
  EXPECT_EQ(model.bits_per_weight, 16.0);
  const auto& tensor = find(model, "h.1.mlp.c_fc.weight");
  EXPECT_EQ(tensor.storage, "F16");
  EXPECT_EQ(tensor.shape, (std::vector<std::uint64_t>{16, 64}));
  EXPECT_EQ(tensor.weights, 1024u);
  EXPECT_TRUE(tensor.block_linear);
  EXPECT_FALSE(find(model, "h.1.mlp.c_fc.bias").block_linear);
  EXPECT_FALSE(find(model, "wte.weight").block_linear);
  const auto& raw = source.tensor("h.1.mlp.c_fc.weight");
  std::vector<float> values(1024);
  convert_to_f32(DType::kF16, reinterpret_cast<const std::byte*>(raw.bytes.data()), 1024, values.data());
  expect_statistics(tensor.values, values);
}

TEST(DescribeModel, CountsBadValuesInsteadOfRefusing) {
  const TempDir dir;
  auto source = test::tiny_llama();
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
  std::memcpy(source.tensor("model.layers.0.mlp.up_proj.weight").bytes.data(), bad, sizeof bad);
  source.write(dir / "model");
  const auto model = describe_model(dir / "model");
  const auto& values = find(model, "model.layers.0.mlp.up_proj.weight").values;
  EXPECT_EQ(values.nan_count, 1u);
  EXPECT_EQ(values.infinities, 1u);
  EXPECT_TRUE(std::isfinite(values.deviation));
}

TEST(DescribeModel, ShowsAQuantizedWeightAsOneAndAsItDecodes) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  const auto result = quant::quantize_model({.model = dir / "model",
                                             .output = dir / "out",
                                             .recipe = quant::Recipe::parse("defaults: {bits: 3}", "r"),
                                             .overwrite = false,
                                             .progress = {}});
  const auto model = describe_model(dir / "out");
  EXPECT_EQ(model.method, "palette 3-bit tensor");
  EXPECT_EQ(model.recipe, quant::Recipe::parse("defaults: {bits: 3}", "r").canonical_text());
  EXPECT_EQ(model.bits_per_weight, result.bits_per_weight);
  EXPECT_EQ(model.model_bits_per_weight, result.model_bits_per_weight);
  EXPECT_EQ(model.parameters, describe_model(dir / "model").parameters);
  const auto& tensor = find(model, "h.0.attn.c_attn.k.weight");
  EXPECT_EQ(tensor.storage, "palette 3-bit tensor");
  EXPECT_EQ(tensor.weights, 256u);
  EXPECT_EQ(tensor.bytes, 16u * 6 + 8 * 2);
  EXPECT_TRUE(tensor.block_linear);
  std::vector<float> values(256);
  quant::make_weight_provider(model::Checkpoint::open(dir / "out"))
      ->matrix(model.architecture.blocks[0].attention.k)
      ->decode_rows(0, 16, values.data());
  expect_statistics(tensor.values, values);
}

TEST(DescribeModel, DoesNotDependOnTheNumberOfThreads) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  set_thread_count(1);
  const auto one = describe_model(dir / "model");
  set_thread_count(3);
  const auto three = describe_model(dir / "model");
  set_thread_count(0);
  for (std::size_t i = 0; i < one.tensors.size(); ++i) {
    EXPECT_EQ(one.tensors[i].values.mean, three.tensors[i].values.mean);
    EXPECT_EQ(one.tensors[i].values.deviation, three.tensors[i].values.deviation);
  }
}

}  // namespace
}  // namespace nibble::eval
