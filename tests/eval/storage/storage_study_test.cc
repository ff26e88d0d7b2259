#include "eval/storage/storage_study.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/error.h"
#include "quant/job/quantize_model.h"
#include "quant/recipe/recipe.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

using test::TempDir;

class StorageStudyTest : public testing::Test {
 protected:
  std::filesystem::path quantized(const std::string& settings) {
    test::tiny_gpt2(test::f16_tensor).write(directory_ / "float");
    quant::quantize_model({.model = directory_ / "float",
                           .output = directory_ / "quantized",
                           .recipe = quant::Recipe::parse("defaults: " + settings, "test"),
                           .progress = {}});
    return directory_ / "quantized";
  }
  TempDir directory_;
};

TEST_F(StorageStudyTest, FindsEveryKindOfNumberInAQuantizedModel) {
  const auto streams =
      collect_value_streams(quantized("{format: int4-block, int4_scale: minmax, zero_point: true}"), 1 << 20);
  std::set<std::string> names;
  for (const ValueStream& stream : streams) names.insert(stream.name);
  EXPECT_EQ(names, (std::set<std::string>{"block scales, F16", "block zeros, U8", "codes, 4 bits", "weights, F16"}));
}

const ValueStream& stream_of(const std::vector<ValueStream>& streams, std::string_view name) {
  const auto found = std::find_if(streams.begin(), streams.end(), [&](const auto& s) { return s.name == name; });
  if (found == streams.end()) throw std::invalid_argument(std::string(name));
  return *found;
}

std::vector<std::size_t> row_sizes(const ValueStream& stream) {
  std::vector<std::size_t> sizes;
  for (const RowSpan& row : stream.rows) sizes.push_back(row.size);
  return sizes;
}

// Experts as one tensor, and floats of 8 and 4 bits with their scales in tensors of their own.
TEST_F(StorageStudyTest, TakesStacksAndNarrowFloatsForWhatTheyAre) {
  const auto bytes = [](std::size_t count) { return std::string(count, '\x38'); };
  const std::string fp8 = "model.layers.0.self_attn.q_proj", experts = "model.layers.0.mlp.experts.";
  std::string stack;  // F16: the numbers 0 to 47
  for (char i = 0; i < 2 * 3 * 8; ++i) stack += {i, '\0'};
  test::write_checkpoint(directory_.path(), test::tiny_llama().config_json,
                         {{"stack", "F16", {2, 3, 8}, stack},
                          {fp8 + ".weight", "F8_E4M3", {4, 6}, bytes(24)},
                          {fp8 + ".weight_scale_inv", "F32", {1, 1}, bytes(4)},
                          {fp8 + ".input_scale", "F32", {1, 1}, bytes(4)},
                          {"other.weight", "F8_E5M2", {2, 5}, bytes(10)},
                          {"other.weight_scale", "F32", {2, 1}, bytes(8)},
                          {experts + "down_proj_blocks", "U8", {2, 3, 4, 16}, bytes(384)},
                          {experts + "down_proj_scales", "U8", {2, 3, 4}, bytes(24)}});
  const auto streams = collect_value_streams(directory_.path(), 1 << 20);
  std::vector<std::string> names;
  for (const ValueStream& stream : streams) names.push_back(stream.name);
  EXPECT_EQ(names, (std::vector<std::string>{"weight scales, F32", "weight scales, U8", "weights, F16",
                                             "weights, F8_E4M3", "weights, F8_E5M2", "weights, mxfp4 blocks, U8"}));
  std::vector<std::uint32_t> numbers(48);
  std::iota(numbers.begin(), numbers.end(), 0u);
  EXPECT_EQ(stream_of(streams, "weights, F16").patterns.values, numbers);
  EXPECT_EQ(row_sizes(stream_of(streams, "weights, F16")), std::vector<std::size_t>(6, 8));
  EXPECT_EQ(row_sizes(stream_of(streams, "weights, F8_E4M3")), std::vector<std::size_t>(4, 6));
  EXPECT_EQ(stream_of(streams, "weight scales, F32").values_in_model, 1u + 2u);
  EXPECT_EQ(stream_of(streams, "weight scales, F32").tensors, 2u) << "none of inputs";
  // A row of blocks is a row of weights.
  EXPECT_EQ(row_sizes(stream_of(streams, "weights, mxfp4 blocks, U8")), std::vector<std::size_t>(6, 64));
  EXPECT_EQ(row_sizes(stream_of(streams, "weight scales, U8")), std::vector<std::size_t>(6, 4));
}

TEST_F(StorageStudyTest, RefusesScalesOfMoreThan32Bits) {
  test::write_checkpoint(directory_.path(), test::tiny_llama().config_json,
                         {{"a.weight", "F8_E4M3", {2, 3}, std::string(6, '\x38')},
                          {"a.weight_scale_inv", "F64", {1, 1}, std::string(8, '\x38')}});
  EXPECT_TRUE(test::throws_with<FormatError>([&] { collect_value_streams(directory_.path(), 1 << 20); },
                                             "'a.weight_scale_inv'", "up to 32 bits, got F64"));
}

TEST_F(StorageStudyTest, TakesMatricesOfNetworksThatAreNotKnown) {
  test::write_checkpoint(directory_.path(), R"({"model_type": "nobody's"})",
                         {{"a.bias", "F16", {2, 3}, std::string(12, '\x38')}});
  const auto streams = collect_value_streams(directory_.path(), 1 << 20);
  ASSERT_EQ(streams.size(), 1u);
  EXPECT_EQ(streams[0].values_in_model, 6u);
}

TEST_F(StorageStudyTest, LeavesOutMasksAndTheBiasesOfStacks) {
  const auto weights = [&](const test::TinyModel& model, const char* name) {
    model.write(directory_ / name);
    const auto streams = collect_value_streams(directory_ / name, 1 << 20);
    EXPECT_EQ(streams.size(), 1u) << name;
    return streams.at(0).values_in_model;
  };
  test::TinyModel model = test::tiny_gpt2(test::f16_tensor);
  const std::uint64_t plain = weights(model, "plain");
  model.tensors.push_back(test::f16_tensor("h.0.attn.bias", {1, 1, 24, 24}, std::vector<float>(576, 1.0f)));
  EXPECT_EQ(weights(model, "masked"), plain);

  test::TinyModel experts;
  experts.config_json = R"({"model_type": "gpt_oss", "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1,
      "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "intermediate_size": 12,
      "num_local_experts": 4, "num_experts_per_tok": 2, "max_position_embeddings": 64, "sliding_window": 16,
      "layer_types": ["full_attention"], "attention_bias": true, "hidden_act": "silu", "rms_norm_eps": 1e-05,
      "rope_theta": 10000.0, "tie_word_embeddings": false})";
  const std::string prefix = "model.layers.0.mlp.experts.";
  experts.tensors = {test::f16_tensor(prefix + "down_proj", {4, 12, 16}, std::vector<float>(768, 1.0f)),
                     test::f16_tensor(prefix + "down_proj_bias", {4, 16}, std::vector<float>(64, 1.0f))};
  EXPECT_EQ(weights(experts, "experts"), 768u);
}

TEST_F(StorageStudyTest, TakesEverythingWhereTheSampleIsLargeEnough) {
  for (const ValueStream& stream : collect_value_streams(quantized("{bits: 3}"), 1 << 20)) {
    EXPECT_EQ(stream.patterns.values.size(), stream.values_in_model) << stream.name;
    std::size_t next = 0;
    for (const RowSpan& row : stream.rows) {
      EXPECT_EQ(row.begin, next);
      next += row.size;
    }
    EXPECT_EQ(next, stream.patterns.values.size());
  }
}

TEST_F(StorageStudyTest, KeepsToItsSampleSize) {
  for (const ValueStream& stream : collect_value_streams(quantized("{bits: 3}"), 1000)) {
    EXPECT_GT(stream.values_in_model * stream.patterns.width, 8000u) << stream.name;
    EXPECT_LE(stream.patterns.values.size() * stream.patterns.width, 8000u) << stream.name;
    EXPECT_GT(stream.patterns.values.size(), 0u) << stream.name;
  }
}

TEST_F(StorageStudyTest, ASmallSampleHoldsSomethingOfEveryKind) {
  const std::filesystem::path model = quantized("{bits: 3}");
  const std::size_t kinds = collect_value_streams(model, 1 << 20).size();
  for (const std::uint64_t bytes :
       std::initializer_list<std::uint64_t>{100, 150, 250, 400, 900})  // rows of its weights have 128 bytes at most
    EXPECT_EQ(collect_value_streams(model, bytes).size(), kinds) << bytes;
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { collect_value_streams(model, 1); }, "less than one row"));
}

TEST_F(StorageStudyTest, MeasuresEveryCodecUnderEveryTransform) {
  const auto studies = study_storage(quantized("{bits: 4}"), {.sample_bytes = 4096});
  ASSERT_EQ(studies.size(), 2u);
  const StreamStudy& codes = studies[0];
  EXPECT_EQ(codes.stream, "codes, 4 bits");
  // 6 general compressors x 3 layouts x 4 steps, rANS and simple8b x 4 steps; and Gorilla for floats.
  EXPECT_EQ(codes.results.size(), 80u);
  EXPECT_EQ(studies[1].stream, "weights, F16");
  EXPECT_EQ(studies[1].results.size(), 84u);
  for (const StreamStudy& study : studies)
    for (const CompressionResult& result : study.results) {
      EXPECT_GT(result.bytes, 0u) << result.codec;
      EXPECT_TRUE(test::near(result.ratio * static_cast<double>(result.bytes), static_cast<double>(study.bytes),
                             {.rel = 1e-12}));
      EXPECT_GT(result.compress_megabytes_per_second, 0.0);
      EXPECT_GT(result.decompress_megabytes_per_second, 0.0);
    }
}

// Where a limit is set on it, one of Linux's two clocks of processor time goes by ticks, in which much is done.
TEST_F(StorageStudyTest, MeasuresRatesUnderALimitOfProcessorTime) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_CPU, &before), 0);
  rlimit limited = before;
  limited.rlim_cur = std::min<rlim_t>(before.rlim_max, 1'000'000);
  ASSERT_EQ(setrlimit(RLIMIT_CPU, &limited), 0);
  const auto studies = study_storage(quantized("{bits: 4}"), {.sample_bytes = 4096});
  ASSERT_EQ(setrlimit(RLIMIT_CPU, &before), 0);
  for (const StreamStudy& study : studies)
    for (const CompressionResult& result : study.results) {
      constexpr double kCopying = 1e5;  // MB/s: more than a core copies
      EXPECT_LT(result.compress_megabytes_per_second, kCopying) << result.codec;
      EXPECT_LT(result.decompress_megabytes_per_second, kCopying) << result.codec;
    }
}

TEST_F(StorageStudyTest, RefusesAnEmptySampleAndAMissingModel) {
  EXPECT_TRUE(test::throws_with<InvalidArgument>([] { collect_value_streams("nowhere", 0); }, "0 bytes"));
  EXPECT_TRUE(
      test::throws_with<InvalidArgument>([] { collect_value_streams("nowhere", 1ull << 40); }, "expected 1 to"));
  EXPECT_TRUE(test::throws_with<FormatError>([] { collect_value_streams("nowhere", 1); }, "nowhere"));
}

}  // namespace
}  // namespace nibble::eval
