#include "model/gguf/gguf_source.h"

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

#include "core/error.h"
#include "tests/model/gguf/tiny_gguf.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using test::gguf_bytes;
using test::le;
using test::TempDir;
using test::throws_with;
using test::write_file;

/// F32 data: 0, 1, 2, …
std::string counting(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += le(static_cast<float>(i));
  return bytes;
}

std::vector<float> all_rows(const WeightSource& source) {
  std::vector<float> values(source.rows() * source.cols());
  source.decode_rows(0, source.rows(), values.data());
  return values;
}

TEST(InterleavedRows, AreTheConvertersPermutation) {
  // llama.cpp's converter reshapes a head's rows (2, n/2) and swaps the axes: what it stores at 2i + h was at h n/2 +
  // i.
  for (const std::size_t n : {2u, 4u, 6u, 64u}) {
    for (std::size_t head = 0; head < 3; ++head) {
      for (std::size_t h = 0; h < 2; ++h) {
        for (std::size_t i = 0; i < n / 2; ++i) {
          EXPECT_EQ(interleaved_row(head * n + h * n / 2 + i, n), head * n + 2 * i + h);
          EXPECT_EQ(rotate_half_row(head * n + 2 * i + h, n), head * n + h * n / 2 + i);
        }
      }
    }
  }
}

class Sources : public testing::Test {
 protected:
  std::shared_ptr<const GgufFile> open(const std::vector<test::TinyGgufTensor>& tensors, const std::string& data) {
    write_file(directory_ / "m.gguf", gguf_bytes({}, tensors, data));
    return GgufFile::open(directory_ / "m.gguf");
  }
  TempDir directory_;
};

TEST_F(Sources, DecodeTheRowsAskedFor) {
  std::string data;  // 3 rows of 64 weights in Q8_0: row r is 2^-r times 0, 1, 2, …
  for (int r = 0; r < 3; ++r) {
    for (int b = 0; b < 2; ++b) {
      data += le(static_cast<std::uint16_t>(0x3C00 - r * 0x400));
      for (int j = 0; j < 32; ++j) data += static_cast<char>(32 * b + j);
    }
  }
  const auto file = open({{"x", {64, 3}, 8, 0}}, data);
  const auto source = make_gguf_source(file, file->tensor("x"));
  EXPECT_EQ(source->rows(), 3u);
  EXPECT_EQ(source->cols(), 64u);
  EXPECT_EQ(source->plain_floats().data, nullptr);
  const std::vector<float> all = all_rows(*source);
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t c = 0; c < 64; ++c)
      EXPECT_TRUE(test::near(all[64 * r + c], static_cast<double>(c) / static_cast<double>(1u << r), {})) << r << c;
  }
  std::vector<float> last(64);
  source->decode_rows(2, 3, last.data());
  EXPECT_TRUE(test::same_bits(last, std::span(all).last(64)));
  source->decode_rows(3, 3, nullptr);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { source->decode_rows(2, 4, last.data()); }, "rows [2, 4) of 3"));
  source->release();
  EXPECT_TRUE(test::same_bits(all_rows(*source), all));
}

TEST_F(Sources, PutTheHalvesOfHeadsApartAgain) {
  const auto file = open({{"q", {2, 8}, 0, 0}, {"bias", {8}, 0, 64}}, counting(24));
  const auto plain = make_gguf_source(file, file->tensor("q"));
  EXPECT_TRUE(
      test::same_bits(all_rows(*plain), std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_NE(plain->plain_floats().data, nullptr);
  EXPECT_EQ(plain->plain_floats().stride, plain->cols()) << "kernels step from row to row by it";
  const auto apart =
      make_gguf_source(file, file->tensor("q"), {.interleaved_heads = 2});  // heads of 4 rows: stored 0, 2, 1, 3
  EXPECT_TRUE(
      test::same_bits(all_rows(*apart), std::vector<float>{0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15}));
  EXPECT_EQ(apart->plain_floats().data, nullptr) << "not as it lies in the file";
  std::vector<float> part(6);
  apart->decode_rows(1, 4, part.data());
  EXPECT_TRUE(test::same_bits(part, std::vector<float>{4, 5, 2, 3, 6, 7}));
  EXPECT_TRUE(test::same_bits(gguf_vector(*file, file->tensor("bias"), {.interleaved_heads = 2}),
                              std::vector<float>{16, 18, 17, 19, 20, 22, 21, 23}));
  EXPECT_TRUE(
      test::same_bits(gguf_vector(*file, file->tensor("bias")), std::vector<float>{16, 17, 18, 19, 20, 21, 22, 23}));
}

TEST_F(Sources, LayExpertsBelowEachOther) {
  const auto file = open({{"experts", {2, 3, 4}, 0, 0}}, counting(24));
  const auto source = make_gguf_source(file, file->tensor("experts"));
  EXPECT_EQ(source->rows(), 12u);
  EXPECT_EQ(source->cols(), 2u);
  std::vector<float> counted(24);
  std::iota(counted.begin(), counted.end(), 0.0f);
  EXPECT_TRUE(test::same_bits(all_rows(*source), counted));
}

TEST_F(Sources, MayBeSomeOfTheRows) {
  const auto file = open({{"fused", {2, 12}, 0, 0}}, counting(24));
  const GgufTensor& fused = file->tensor("fused");
  const auto middle = make_gguf_source(file, fused, {.first = 2, .count = 3});
  EXPECT_EQ(middle->rows(), 3u);
  EXPECT_TRUE(test::same_bits(all_rows(*middle), std::vector<float>{4, 5, 6, 7, 8, 9}));
  float plain[2];
  std::memcpy(plain, middle->plain_floats().data, sizeof plain);
  EXPECT_TRUE(test::same_bits(plain, std::vector<float>{4, 5}));
  const auto moved = make_gguf_source(file, fused, {.first = 4, .count = 8, .interleaved_heads = 2});
  EXPECT_TRUE(test::same_bits(all_rows(*moved),
                              std::vector<float>{8, 9, 12, 13, 10, 11, 14, 15, 16, 17, 20, 21, 18, 19, 22, 23}));
  EXPECT_TRUE(test::same_bits(gguf_vector(*file, fused, {.first = 20, .count = 4, .interleaved_heads = 1}),
                              std::vector<float>{20, 22, 21, 23}));
  EXPECT_EQ(make_gguf_source(file, fused, {.first = 12})->rows(), 0u);
}

TEST_F(Sources, OfWhatCannotBeDecodedAreRefused) {
  const auto file = open({{"ints", {8}, 26, 0}, {"x", {8, 6}, 0, 32}, {"v", {8}, 0, 224}}, counting(64));
  const auto refuses = [&](const char* name, std::size_t heads, auto... words) {
    return throws_with<FormatError>([&] { make_gguf_source(file, file->tensor(name), {.interleaved_heads = heads}); },
                                    "m.gguf", words...);
  };
  EXPECT_TRUE(refuses("ints", 0, "tensor 'ints'", "stored as I32, which is not decoded"));
  EXPECT_TRUE(refuses("x", 4, "6 rows cannot be 4 heads with an even number of rows each"));
  EXPECT_TRUE(refuses("x", 2, "6 rows cannot be 2 heads"));
  const auto refuses_vector = [&](const char* name, const GgufRows& rows, auto... words) {
    return throws_with<FormatError>([&] { gguf_vector(*file, file->tensor(name), rows); }, "m.gguf", words...);
  };
  EXPECT_TRUE(refuses_vector("v", {.interleaved_heads = 8}, "8 rows cannot be 8 heads"));
  EXPECT_TRUE(refuses_vector("v", {.first = 9}, "all rows from 9 are asked for, it has 8"));
  EXPECT_TRUE(refuses_vector("v", {.first = 4, .count = 5}, "5 rows from 4 are asked for, it has 8"));
  EXPECT_TRUE(refuses_vector("ints", {}, "not decoded"));
  EXPECT_TRUE(throws_with<FormatError>([&] { make_gguf_source(file, file->tensor("x"), {.first = 6, .count = 1}); },
                                       "1 rows from 6 are asked for, it has 6"));
}

TEST_F(Sources, OfAFileThatShrankThrow) {
  const auto file = open({{"x", {512, 16}, 0, 0}}, counting(8192));
  const auto source = make_gguf_source(file, file->tensor("x"));
  std::filesystem::resize_file(directory_ / "m.gguf", 100);
  EXPECT_TRUE(throws_with<FormatError>([&] { all_rows(*source); }, "m.gguf", "cut short"));
}

}  // namespace
}  // namespace nibble::model
