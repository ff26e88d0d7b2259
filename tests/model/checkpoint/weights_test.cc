#include "model/checkpoint/weights.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/random.h"
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
       {source("w"), source("t", true), make_row_set_source(source("w"), RowSet::contiguous(0, 4))}) {
    EXPECT_TRUE(throws_with<InvalidArgument>([&] { each->decode_rows(2, 5, room.data()); }, "[2, 5) of 4"));
    EXPECT_TRUE(throws_with<InvalidArgument>([&] { each->decode_rows(3, 2, room.data()); }, "[3, 2) of 4"));
  }
}

TEST_F(SourcesTest, ThatAreStoredAsTheyAreDecodeNoColumns) {
  std::vector<float> room(100);
  for (const auto& each : {source("w"), make_row_set_source(source("w"), RowSet::contiguous(0, 4))}) {
    EXPECT_FALSE(each->stored_transposed());
    EXPECT_THROW(each->decode_rows_transposed(0, 1, room.data()), InvalidArgument);
  }
}

TEST_F(SourcesTest, RowSetsGiveTheirRowsInOrder) {
  const RowSet sets[] = {RowSet::contiguous(1, 3), {0, 1, 2, 2}, {1, 1, 2, 2}, {0, 2, 3, 3}, {2, 1, 1, 0}};
  const std::vector<std::vector<std::size_t>> rows_of_sets = {{1, 2, 3}, {0, 2}, {1, 3}, {0, 1, 3}, {}};
  for (std::size_t s = 0; s < std::size(sets); ++s) {
    std::vector<float> expected;
    for (const std::size_t row : rows_of_sets[s])
      expected.insert(expected.end(), values_.begin() + static_cast<std::ptrdiff_t>(row * 3),
                      values_.begin() + static_cast<std::ptrdiff_t>(row * 3 + 3));
    const std::size_t count = rows_of_sets[s].size();
    for (const auto& part :
         {make_row_set_source(source("w"), sets[s]), make_row_set_source(source("t", true), sets[s])}) {
      ASSERT_EQ(part->rows(), count);
      ASSERT_EQ(part->cols(), 3u);
      for (std::size_t begin = 0; begin <= count; ++begin) {
        for (std::size_t end = begin; end <= count; ++end) {
          SCOPED_TRACE(testing::Message() << "set " << s << ", rows [" << begin << ", " << end << ")");
          const std::vector<float> rows = plain_rows(expected, count, 3, false, begin, end);
          EXPECT_TRUE(same_bits(decode(*part, begin, end), rows));
          if (part->stored_transposed()) {
            EXPECT_TRUE(same_bits(decode_transposed(*part, begin, end), transposed(rows, end - begin, 3)));
          }
        }
      }
      part->release();
    }
  }
}

TEST_F(SourcesTest, RowSetsMustLieWithinTheRows) {
  EXPECT_TRUE(
      throws_with<InvalidArgument>([&] { make_row_set_source(source("w"), RowSet::contiguous(3, 2)); }, "row 4 of 4"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { make_row_set_source(source("w"), {0, 1, 2, 3}); }, "row 4 of 4"));
  EXPECT_EQ(make_row_set_source(source("w"), RowSet::contiguous(4, 0))->rows(), 0u);
}

TEST_F(SourcesTest, ComposedGiveTheWholeThatRowSetsTookApart) {
  const std::vector<std::vector<RowSet>> cuts = {{RowSet::contiguous(0, 4)},
                                                 {RowSet::contiguous(0, 1), RowSet::contiguous(1, 3)},
                                                 {{0, 1, 2, 2}, {1, 1, 2, 2}},
                                                 {{0, 2, 3, 3}, RowSet::contiguous(2, 1)},
                                                 {RowSet::contiguous(3, 1), RowSet::contiguous(0, 3), {2, 1, 1, 0}}};
  for (std::size_t c = 0; c < cuts.size(); ++c) {
    std::vector<SourcePart> parts;
    for (const RowSet& rows : cuts[c]) parts.push_back({make_row_set_source(source("w"), rows), rows});
    const auto whole = make_composed_source(parts, 4);
    ASSERT_EQ(whole->rows(), 4u);
    ASSERT_EQ(whole->cols(), 3u);
    for (std::size_t begin = 0; begin <= 4; ++begin)
      for (std::size_t end = begin; end <= 4; ++end) {
        SCOPED_TRACE(testing::Message() << "cut " << c << ", rows [" << begin << ", " << end << ")");
        EXPECT_TRUE(same_bits(decode(*whole, begin, end), decode(*source("w"), begin, end)));
      }
    whole->check_intact();
    whole->release();
  }
}

TEST_F(SourcesTest, ComposedMustHaveEveryRow) {
  const auto rows = [&](std::size_t first, std::size_t count) {
    return SourcePart{make_row_set_source(source("w"), RowSet::contiguous(first, count)),
                      RowSet::contiguous(first, count)};
  };
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { make_composed_source({}, 4); }, "0 parts have 0 rows, not 4"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { make_composed_source({rows(0, 2)}, 4); }, "1 parts have 2 rows"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { make_composed_source({rows(0, 4)}, 3); }, "4 rows", "matrix of 3"));
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] {
        make_composed_source({{source("w"), RowSet::contiguous(0, 3)}, rows(3, 1)}, 4);
      },
      "does not fit"));
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

// The provider, on a checkpoint whose config.json is GPT-2's.

constexpr const char* kConfig =
    R"({"model_type": "gpt2", "vocab_size": 8, "n_embd": 4, "n_layer": 1, "n_head": 1, "n_positions": 4})";

Parameter parameter(const std::string& module, std::size_t out, std::size_t in, bool transposed_storage) {
  Parameter p;
  p.module = p.weight_module = module;
  p.out = out, p.in = in;
  p.weight = whole_matrix(module + ".weight", out, in, transposed_storage);
  p.bias = whole_vector(module + ".bias", out);
  return p;
}

class FloatProviderTest : public testing::Test {
 protected:
  /// c: stored (in 3, out 4), with bias; p: (4, 3) without; s: a stack of two matrices (2, 3), both rows of w; names
  /// with `prefix` before them.
  void make(const std::string& prefix) {
    test::write_checkpoint(directory_.path(), kConfig,
                           {test::f32_tensor(prefix + "c.weight", {3, 4}, transposed(values_, 4, 3)),
                            test::f16_tensor(prefix + "c.bias", {4}, bias_),
                            test::bf16_tensor("p.weight", {4, 3}, values_),
                            test::f32_tensor("s.weight", {2, 2, 3}, values_),
                            test::f32_tensor("s.bias", {2, 2}, bias_),
                            {"p.codes", "U8", {4}, "abcd"},
                            {"p.f64", "F64", {1}, "abcdefgh"}});
    provider_ = make_float_provider(Checkpoint::open(directory_.path()));
  }
  TempDir directory_;
  const std::vector<float> values_ = short_values(12, 1), bias_ = short_values(4, 2);
  std::unique_ptr<WeightProvider> provider_;
};

TEST_F(FloatProviderTest, FindsNamesWithAndWithoutTheFamilysPrefix) {
  for (const std::string stored : {"", "transformer."}) {
    make(stored);
    for (const std::string asked : {"", "transformer."}) {
      SCOPED_TRACE(testing::Message() << "stored '" << stored << "', asked '" << asked << "'");
      EXPECT_TRUE(provider_->contains(asked + "c.weight"));
      EXPECT_FALSE(provider_->contains(asked + "d.weight"));
      EXPECT_TRUE(same_bits(provider_->vector(whole_vector(asked + "c.bias", 4)), bias_));
      EXPECT_TRUE(same_bits(decode(*provider_->matrix(parameter(asked + "c", 4, 3, true)), 0, 4), values_));
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
  for (const bool with_bias : {true, false}) {
    const auto linear = provider_->linear(parameter(with_bias ? "c" : "p", 4, 3, with_bias));
    std::vector<float> y(8), expected(8);
    linear->forward({x.data(), 2, 3}, {y.data(), 2, 4});
    for (std::size_t t = 0; t < 2; ++t) {
      for (std::size_t o = 0; o < 4; ++o) {
        expected[t * 4 + o] = with_bias ? bias_[o] : 0.0f;
        for (std::size_t i = 0; i < 3; ++i) expected[t * 4 + o] += x[t * 3 + i] * values_[o * 3 + i];
      }
    }
    EXPECT_TRUE(same_bits(y, expected)) << (with_bias ? "with" : "without") << " bias";
  }
  Parameter asks = parameter("p", 4, 3, false);
  asks.biased = true;
  EXPECT_TRUE(throws_with<FormatError>([&] { provider_->linear(asks); }, "missing tensor 'p.bias'",
                                       "after config.json's model_type and the keys that its family reads"));
}

TEST_F(FloatProviderTest, GivesRowsOfFusedTensorsAndSlicesOfStacks) {
  make("");
  Parameter part = parameter("c", 4, 3, true);
  part.out = 2;
  part.weight.part = part.bias.part = {1, 1, 2, 2};
  EXPECT_TRUE(
      same_bits(decode(*provider_->matrix(part), 0, 2),
                std::vector<float>({values_[3], values_[4], values_[5], values_[9], values_[10], values_[11]})));
  EXPECT_TRUE(same_bits(provider_->vector(part.bias), std::vector<float>({bias_[1], bias_[3]})));
  for (std::size_t slice = 0; slice < 2; ++slice) {
    Parameter expert = parameter("s", 2, 3, false);
    expert.weight.slices = expert.bias.slices = 2;
    expert.weight.slice = expert.bias.slice = slice;
    const auto first = values_.begin() + static_cast<std::ptrdiff_t>(6 * slice);
    EXPECT_TRUE(same_bits(decode(*provider_->matrix(expert), 0, 2), std::vector<float>(first, first + 6)));
    EXPECT_TRUE(
        same_bits(provider_->vector(expert.bias), std::vector<float>({bias_[2 * slice], bias_[2 * slice + 1]})));
  }
}

TEST_F(FloatProviderTest, RefusesOtherShapesThanAskedFor) {
  make("transformer.");
  const auto vector = [&](const char* name, std::size_t size) { (void)provider_->vector(whole_vector(name, size)); };
  const auto matrix = [&](const char* name, std::size_t out, std::size_t in, bool transposed_storage) {
    (void)provider_->matrix(parameter(name, out, in, transposed_storage));
  };
  EXPECT_TRUE(throws_with<FormatError>([&] { vector("c.bias", 5); }, "'transformer.c.bias'", "(5)", "(4)"));
  EXPECT_TRUE(throws_with<FormatError>([&] { vector("p.weight", 12); }, "(12)", "(4, 3)"));
  EXPECT_TRUE(throws_with<FormatError>([&] { matrix("p", 3, 4, false); }, "(3, 4)", "(4, 3)"));
  EXPECT_TRUE(throws_with<FormatError>([&] { matrix("p", 4, 3, true); }, "(3, 4), stored (in, out)"));
  EXPECT_TRUE(throws_with<FormatError>([&] { matrix("c", 3, 4, true); }, "(4, 3), stored", "got (3, 4)"));
}

TEST_F(FloatProviderTest, RefusesAbsentAndIntegerTensors) {
  make("transformer.");
  EXPECT_TRUE(throws_with<FormatError>([&] { (void)provider_->matrix(parameter("q", 4, 3, false)); },
                                       "missing tensor 'q.weight'"));
  EXPECT_TRUE(throws_with<FormatError>([&] { (void)provider_->vector(whole_vector("p.codes", 4)); }, "'p.codes'",
                                       "BF16, got U8"));
  EXPECT_TRUE(
      throws_with<FormatError>([&] { (void)provider_->vector(whole_vector("p.f64", 1)); }, "'p.f64'", "BF16, got F64"));
}

TEST_F(FloatProviderTest, NoticesAFileThatShrank) {
  make("");
  std::filesystem::resize_file(directory_ / "model.safetensors", 1);
  EXPECT_TRUE(throws_with<FormatError>([&] { (void)provider_->vector(whole_vector("c.bias", 4)); }, "cut short"));
}

}  // namespace
}  // namespace nibble::model
