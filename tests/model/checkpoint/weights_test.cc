#include "model/checkpoint/weights.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "core/error.h"
#include "core/random.h"
#include "core/thread_pool.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"
#include "tests/support/tiny_checkpoint.h"

namespace nibble::model {
namespace {

using test::same_bits;
using test::TempDir;
using test::throws_with;
using test::TinyTensor;

/// Rows [begin, end) of a row-major (rows, cols) matrix, or with `transposed` columns of a stored (cols, rows) one.
std::vector<float> plain_rows(const std::vector<float>& stored, std::size_t rows, std::size_t cols, bool transposed,
                              std::size_t begin, std::size_t end) {
  std::vector<float> result;
  for (std::size_t r = begin; r < end; ++r)
    for (std::size_t c = 0; c < cols; ++c) result.push_back(transposed ? stored[c * rows + r] : stored[r * cols + c]);
  return result;
}

std::vector<float> transposed(const std::vector<float>& matrix, std::size_t rows, std::size_t cols) {
  return plain_rows(matrix, cols, rows, true, 0, cols);
}

std::vector<float> decode(const WeightSource& source, std::size_t begin, std::size_t end) {
  std::vector<float> values((end - begin) * source.cols(), -7.0f);
  source.decode_rows(begin, end, values.data());
  return values;
}

std::vector<float> decode_transposed(const WeightSource& source, std::size_t begin, std::size_t end) {
  std::vector<float> values((end - begin) * source.cols(), -7.0f);
  source.decode_rows_transposed(begin, end, values.data());
  return values;
}

/// Values that F16 and BF16 hold exactly.
std::vector<float> short_values(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = (static_cast<float>(random.below(255)) - 127.0f) / 64.0f;
  return values;
}

using MakeTensor = TinyTensor (*)(std::string, std::vector<std::uint64_t>, std::span<const float>);

TEST(MappedSource, DecodesAnyRowsOfEveryFloatDtypeAtOddAddressesAndBothWaysOfStoring) {
  constexpr std::size_t kRows = 131, kCols = 197;  // beyond one block of the transposition, in both directions
  const std::vector<float> stored = short_values(kRows * kCols, 3);
  for (const auto& [name, make] : {std::pair<const char*, MakeTensor>{"F32", test::f32_tensor},
                                   {"F16", test::f16_tensor},
                                   {"BF16", test::bf16_tensor}}) {
    for (const bool conv1d : {false, true}) {
      SCOPED_TRACE(testing::Message() << name << (conv1d ? " transposed" : ""));
      const TempDir directory;
      const std::vector<std::uint64_t> shape =
          conv1d ? std::vector<std::uint64_t>{kCols, kRows} : std::vector<std::uint64_t>{kRows, kCols};
      test::write_checkpoint(directory.path(), "{}", {{"odd", "U8", {1}, "#"}, make("w.weight", shape, stored)});
      const auto checkpoint = Checkpoint::open(directory.path());
      const auto source = make_mapped_source(checkpoint, checkpoint->tensor("w.weight"), conv1d);
      ASSERT_EQ(source->rows(), kRows);
      ASSERT_EQ(source->cols(), kCols);
      ASSERT_EQ(source->stored_transposed(), conv1d);
      Random random(5);
      for (int round = 0; round < 20; ++round) {
        std::size_t begin = random.below(kRows + 1), end = random.below(kRows + 1);
        if (round == 0) begin = 0, end = kRows;
        if (begin > end) std::swap(begin, end);
        SCOPED_TRACE(testing::Message() << "rows [" << begin << ", " << end << ")");
        const std::vector<float> expected = plain_rows(stored, kRows, kCols, conv1d, begin, end);
        EXPECT_TRUE(same_bits(decode(*source, begin, end), expected));
        if (conv1d) {
          EXPECT_TRUE(same_bits(decode_transposed(*source, begin, end), transposed(expected, end - begin, kCols)));
        }
      }
      source->release();
      EXPECT_TRUE(same_bits(decode(*source, 1, 2), plain_rows(stored, kRows, kCols, conv1d, 1, 2)));
    }
  }
}

class SourcesTest : public testing::Test {
 protected:
  /// w: (4, 3) float; t: the same stored (3, 4).
  SourcesTest() : values_(short_values(12, 1)), transposed_(transposed(values_, 4, 3)) {
    test::write_checkpoint(directory_.path(), "{}",
                           {test::f16_tensor("w", {4, 3}, values_),
                            test::f32_tensor("t", {3, 4}, transposed_),
                            {"codes", "U8", {2, 2}, "abcd"},
                            test::f32_tensor("v", {3}, short_values(3, 2)),
                            test::f32_tensor("wide", {1, 4}, short_values(4, 2))});
    checkpoint_ = Checkpoint::open(directory_.path());
  }
  std::shared_ptr<const WeightSource> source(const std::string& name, bool conv1d = false) const {
    return make_mapped_source(checkpoint_, checkpoint_->tensor(name), conv1d);
  }
  TempDir directory_;
  std::vector<float> values_, transposed_;
  std::shared_ptr<const Checkpoint> checkpoint_;
};

TEST_F(SourcesTest, RefuseWhatIsNoFloatMatrix) {
  EXPECT_TRUE(throws_with<FormatError>([&] { source("codes"); }, "'codes'", "F32, F16 or BF16", "(2, 2) U8"));
  EXPECT_TRUE(throws_with<FormatError>([&] { source("v"); }, "'v'", "matrix", "(3)"));
}

TEST_F(SourcesTest, RefuseRowsThatAreNotThere) {
  std::vector<float> room(100);
  for (const auto& each :
       {source("w"), source("t", true), make_stacked_source({source("w")}), make_row_slice_source(source("w"), 0, 4)}) {
    EXPECT_TRUE(throws_with<InvalidArgument>([&] { each->decode_rows(2, 5, room.data()); }, "[2, 5) of 4"));
    EXPECT_TRUE(throws_with<InvalidArgument>([&] { each->decode_rows(3, 2, room.data()); }, "[3, 2) of 4"));
  }
}

TEST_F(SourcesTest, ThatAreStoredAsTheyAreDecodeNoColumns) {
  std::vector<float> room(100);
  for (const auto& each :
       {source("w"), make_stacked_source({source("w"), source("t", true)}), make_row_slice_source(source("w"), 0, 4)}) {
    EXPECT_FALSE(each->stored_transposed());
    EXPECT_THROW(each->decode_rows_transposed(0, 1, room.data()), InvalidArgument);
  }
}

TEST_F(SourcesTest, StackedGiveTheRowsOfAllParts) {
  std::vector<float> expected = values_;
  expected.insert(expected.end(), values_.begin() + 3, values_.begin() + 9);
  expected.insert(expected.end(), values_.begin(), values_.end());
  const auto mixed = make_stacked_source({source("w"), make_row_slice_source(source("w"), 1, 3), source("t", true)});
  const auto conv1d =
      make_stacked_source({source("t", true), make_row_slice_source(source("t", true), 1, 3), source("t", true)});
  EXPECT_FALSE(mixed->stored_transposed());
  EXPECT_TRUE(conv1d->stored_transposed());
  for (const auto& stacked : {mixed, conv1d}) {
    ASSERT_EQ(stacked->rows(), 10u);
    ASSERT_EQ(stacked->cols(), 3u);
    for (std::size_t begin = 0; begin <= 10; ++begin) {
      for (std::size_t end = begin; end <= 10; ++end) {
        SCOPED_TRACE(testing::Message() << "rows [" << begin << ", " << end << ")");
        const std::vector<float> rows = plain_rows(expected, 10, 3, false, begin, end);
        EXPECT_TRUE(same_bits(decode(*stacked, begin, end), rows));
        if (stacked->stored_transposed()) {
          EXPECT_TRUE(same_bits(decode_transposed(*stacked, begin, end), transposed(rows, end - begin, 3)));
        }
      }
    }
    stacked->release();
  }
}

TEST_F(SourcesTest, StackedNeedPartsWithTheSameColumns) {
  EXPECT_TRUE(throws_with<InvalidArgument>([] { make_stacked_source({}); }, "no parts"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { make_stacked_source({source("w"), source("wide")}); }, "3 and 4"));
}

TEST_F(SourcesTest, SlicedMustLieWithinTheRows) {
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { make_row_slice_source(source("w"), 3, 5); }, "[3, 5) of 4"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { make_row_slice_source(source("w"), 3, 2); }, "[3, 2) of 4"));
  EXPECT_EQ(make_row_slice_source(source("w"), 4, 4)->rows(), 0u);
}

TEST(MappedSource, ThrowsFormatErrorOnEveryThreadWhenTheFileShrinks) {
  constexpr std::size_t kSize = 512;
  for (const bool conv1d : {false, true}) {
    const TempDir directory;
    test::write_checkpoint(directory.path(), "{}",
                           {test::f32_tensor("w", {kSize, kSize}, test::normal_values(kSize * kSize, 1))});
    const auto checkpoint = Checkpoint::open(directory.path());
    const auto source = make_mapped_source(checkpoint, checkpoint->tensor("w"), conv1d);
    EXPECT_NO_THROW(decode(*source, 0, kSize));
    std::filesystem::resize_file(directory / "model.safetensors", 10000);
    std::atomic<std::size_t> noticed = 0;
    const auto count_failure = [&](const auto& action) {
      if (throws_with<FormatError>(action, "model.safetensors", "cut short")) ++noticed;
    };
    parallel_for(kSize / 8, [&](std::size_t i) { count_failure([&] { decode(*source, i * 8, i * 8 + 8); }); });
    std::thread([&] { count_failure([&] { decode(*source, 0, 1); }); }).join();
    if (conv1d) count_failure([&] { decode_transposed(*source, 0, 1); });
    EXPECT_EQ(noticed, kSize / 8 + (conv1d ? 2 : 1));
  }
}

// The provider, on a checkpoint in GPT-2's shape.

class FloatProviderTest : public testing::Test {
 protected:
  /// c: Conv1D (in 3, out 4) with bias; p: (4, 3) without; names with `prefix` before them.
  void make(const std::string& prefix) {
    test::write_checkpoint(directory_.path(), "{}",
                           {test::f32_tensor(prefix + "c.weight", {3, 4}, transposed(values_, 4, 3)),
                            test::f16_tensor(prefix + "c.bias", {4}, bias_),
                            test::bf16_tensor("p.weight", {4, 3}, values_),
                            {"p.codes", "U8", {4}, "abcd"},
                            {"p.f64", "F64", {1}, "abcdefgh"}});
    provider_ = make_float_provider(Checkpoint::open(directory_.path()));
  }
  TempDir directory_;
  const std::vector<float> values_ = short_values(12, 1), bias_ = short_values(4, 2);
  std::unique_ptr<WeightProvider> provider_;
};

TEST_F(FloatProviderTest, FindsGpt2NamesWithAndWithoutPrefix) {
  for (const std::string stored : {"", "transformer."}) {
    make(stored);
    for (const std::string asked : {"", "transformer."}) {
      SCOPED_TRACE(testing::Message() << "stored '" << stored << "', asked '" << asked << "'");
      EXPECT_TRUE(provider_->contains(asked + "c.weight"));
      EXPECT_FALSE(provider_->contains(asked + "d.weight"));
      EXPECT_TRUE(same_bits(provider_->vector(asked + "c.bias", 4), bias_));
      EXPECT_TRUE(same_bits(decode(*provider_->matrix(asked + "c", 4, 3, true), 0, 4), values_));
    }
  }
  const auto checkpoint = Checkpoint::open(directory_.path());
  EXPECT_EQ(find_tensor_name(*checkpoint, "c.bias"), "transformer.c.bias");
  EXPECT_EQ(find_tensor_name(*checkpoint, "transformer.p.weight"), "p.weight");
  EXPECT_EQ(find_tensor_name(*checkpoint, "transformer."), std::nullopt);
}

TEST_F(FloatProviderTest, MakesLinearLayersWithTheBiasThatIsThere) {
  make("transformer.");
  const std::vector<float> x = short_values(6, 4);  // (2, 3); all sums of products are exact in float
  for (const bool conv1d : {true, false}) {
    const auto linear = provider_->linear(conv1d ? "c" : "p", 4, 3, conv1d);
    std::vector<float> y(8), expected(8);
    linear->forward({x.data(), 2, 3}, {y.data(), 2, 4});
    for (std::size_t t = 0; t < 2; ++t) {
      for (std::size_t o = 0; o < 4; ++o) {
        expected[t * 4 + o] = conv1d ? bias_[o] : 0.0f;
        for (std::size_t i = 0; i < 3; ++i) expected[t * 4 + o] += x[t * 3 + i] * values_[o * 3 + i];
      }
    }
    EXPECT_TRUE(same_bits(y, expected)) << (conv1d ? "Conv1D" : "plain");
  }
}

TEST_F(FloatProviderTest, RefusesOtherShapesThanAskedFor) {
  make("transformer.");
  EXPECT_TRUE(throws_with<FormatError>([&] { provider_->vector("c.bias", 5); }, "'transformer.c.bias'", "(5)", "(4)"));
  EXPECT_TRUE(throws_with<FormatError>([&] { provider_->vector("p.weight", 12); }, "(12)", "(4, 3)"));
  EXPECT_TRUE(throws_with<FormatError>([&] { provider_->matrix("p", 3, 4, false); }, "(3, 4)", "(4, 3)"));
  EXPECT_TRUE(throws_with<FormatError>([&] { provider_->matrix("p", 4, 3, true); }, "(3, 4), stored (in, out)"));
  EXPECT_TRUE(throws_with<FormatError>([&] { provider_->linear("c", 3, 4, true); }, "(4, 3), stored", "got (3, 4)"));
}

TEST_F(FloatProviderTest, RefusesAbsentAndIntegerTensors) {
  make("transformer.");
  EXPECT_TRUE(throws_with<FormatError>([&] { provider_->matrix("q", 4, 3, false); }, "missing tensor 'q.weight'"));
  EXPECT_TRUE(throws_with<FormatError>([&] { provider_->vector("p.codes", 4); }, "'p.codes'", "BF16, got U8"));
  EXPECT_TRUE(throws_with<FormatError>([&] { provider_->vector("p.f64", 1); }, "'p.f64'", "BF16, got F64"));
}

TEST_F(FloatProviderTest, NoticesAFileThatShrank) {
  make("");
  std::filesystem::resize_file(directory_ / "model.safetensors", 1);
  EXPECT_TRUE(throws_with<FormatError>([&] { provider_->vector("c.bias", 4); }, "cut short"));
}

}  // namespace
}  // namespace nibble::model
