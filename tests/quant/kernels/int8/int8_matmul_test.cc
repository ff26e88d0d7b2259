// Products of many tokens in int8 mode, against exact sums and against the same tokens one by one.
#include "quant/kernels/int8/int8_matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "core/random.h"
#include "quant/kernels/linear/packed_linear.h"
#include "quant/kernels/linear/packed_products.h"
#include "tests/quant/kernels/example_tensors.h"
#include "tests/support/compare.h"

namespace nibble::quant {
namespace {

using test::byte_activations;
using test::describe;
using test::random_tensor;
using test::TensorWish;

constexpr std::size_t kBlock = 32;

// Odd sizes around panels of 16 rows, two and four panels, blocks of 32 inputs, units of 128 to 512, steps of 512.
std::vector<TensorWish> wishes(bool integers) {
  std::vector<TensorWish> all;
  for (const auto& [rows, cols] :
       {std::pair<std::size_t, std::size_t>{1, 1}, {15, 31}, {17, 33}, {35, 129}, {16, 515}, {70, 1100}}) {
    for (const unsigned bits : {1u, 2u, 3u, 4u, 6u})
      for (const std::size_t group : {std::size_t{0}, std::size_t{16}, std::size_t{8}, std::size_t{1}})
        all.push_back({{Coding::kPalette, rows, cols, bits, group, 1},
                       group == 8,
                       false,
                       integers,
                       group == 1 ? 0.02 : 0.0,
                       integers});
    for (const unsigned bits : {2u, 3u, 4u, 5u, 6u, 7u, 8u})
      for (const std::size_t width : {std::size_t{0}, std::size_t{32}, std::size_t{64}})
        for (const bool zeros : {false, true})
          all.push_back({{Coding::kBlocks, rows, cols, bits, width, 1}, false, zeros, integers});
    for (const TensorWish& wish : test::block_palette_wishes(rows, cols, integers)) all.push_back(wish);
  }
  return all;
}

Matrix<float> random_activations(std::size_t tokens, std::size_t cols, Random& random) {
  Matrix<float> x(tokens, cols);
  for (float& value : x.values()) value = static_cast<float>(random.normal());
  return x;
}

Matrix<float> products(const PackedWeight& w, const Matrix<float>& x) {
  Matrix<float> y(x.rows(), w.rows);
  multiply_int8_tokens(w, active_int8_matvec(), active_int8_matmul(), {}, x, y);
  return y;
}

Matrix<float> products_one_by_one(const PackedWeight& w, const Matrix<float>& x) {
  Matrix<float> y(x.rows(), w.rows);
  for (std::size_t t = 0; t < x.rows(); ++t) multiply_int8(w, active_int8_matvec(), {}, x.row(t), y.row(t));
  return y;
}

std::vector<float> decoded(const QuantizedTensor& tensor) {
  std::vector<float> w(tensor.rows() * tensor.cols());
  tensor.decode_rows(0, tensor.rows(), w.data());
  return w;
}

// 3 tokens in tiles of 2: the place of the fourth holds zeros, whatever was there before.
TEST(QuantizedTiles, ArePaddedWithZeros) {
  Matrix<float> x(3, 40);
  for (float& value : x.values()) value = 5.0f;
  QuantizedTiles tiles;
  for (int round = 0; round < 2; ++round) quantize_tiles(x, 64, active_int8_matvec().quantize, {2}, 3, 32, tiles);
  ASSERT_EQ(tiles.values.size(), 4u * 64);
  for (std::size_t input = 0; input < 64; ++input) {
    const auto value = [&](std::size_t token) {
      return tiles.values[((token / 2 * 16 + input / 4) * 2 + token % 2) * 4 + input % 4];
    };
    for (const std::size_t token : {0u, 1u, 2u})
      ASSERT_EQ(value(token), input < 40 ? 127 : 0) << token << ", " << input;
    ASSERT_EQ(value(3), 0) << input;
  }
  EXPECT_EQ(tiles.totals[3], 0.0f);
  for (const std::size_t block : {0u, 1u}) EXPECT_EQ(tiles.sums[(2 + block) * 2 + 1], 0);
}

TEST(QuantizedTiles, LieAsTheyAreWanted) {
  Random random(9);
  const Matrix<float> x = random_activations(3, 64, random);
  for (const std::size_t block : {16u, 32u}) {
    QuantizedTiles fours, blocks;
    quantize_tiles(x, 64, active_int8_matvec().quantize, {2}, 0, block, fours);
    quantize_tiles(x, 64, active_int8_matvec().quantize, {2, true}, 0, block, blocks);
    for (std::size_t token = 0; token < 4; ++token)
      for (std::size_t input = 0; input < 64; ++input)
        ASSERT_EQ(blocks.values[((token / 2 * (64 / block) + input / block) * 2 + token % 2) * block + input % block],
                  fours.values[((token / 2 * 16 + input / 4) * 2 + token % 2) * 4 + input % 4])
            << token << ", " << input;
    EXPECT_EQ(blocks.scales, fours.scales);
    EXPECT_EQ(blocks.totals, fours.totals);
  }
}

TEST(Int8Matmul, OfIntegersThat8BitsHoldIsExact) {
  Random random(1);
  for (const TensorWish& wish : wishes(true)) {
    SCOPED_TRACE(describe(wish));
    const QuantizedTensor tensor = random_tensor(wish, random);
    // Whole-row blocks of up to 4 bits become palettes of -2^(b-1) … 2^(b-1) - 1, whose step is no power of two.
    if (wish.spec.coding == Coding::kBlocks && tensor.spec().blocks() == 1 && !wish.zero_points) continue;
    const std::vector<float> w = decoded(tensor);
    const PackedWeight packed = pack_weight(tensor);
    for (const std::size_t tokens : {1u, 12u, 13u, 33u}) {  // tiles are of up to 16
      const Matrix<float> x = byte_activations(tokens, tensor.cols(), random), y = products(packed, x);
      for (std::size_t t = 0; t < tokens; ++t) {
        for (std::size_t r = 0; r < tensor.rows(); ++r) {
          double sum = 0.0;  // of at most 69 · 255 · 2 · 127 + 1100 · 255 · 2 · 7: exact in float, too
          for (std::size_t j = 0; j < tensor.cols(); ++j)
            sum += static_cast<double>(w[r * tensor.cols() + j]) * static_cast<double>(x(t, j));
          ASSERT_TRUE(test::near(static_cast<double>(y(t, r)), sum, {})) << "token " << t << " row " << r;
        }
      }
    }
  }
}

TEST(Int8Matmul, GivesTokensTheBitsThatTheyGetAloneWhereRowsSharePanels) {
  Random random(2);
  for (const TensorWish& wish : wishes(false)) {
    SCOPED_TRACE(describe(wish));
    const PackedWeight packed = pack_weight(random_tensor(wish, random));
    if (packed.kind == PackedKind::kRowPalette) continue;
    const Matrix<float> x = random_activations(19, packed.cols, random);
    ASSERT_TRUE(test::same_bits(products(packed, x).values(), products_one_by_one(packed, x).values()));
  }
}

// Rows of their own are summed in 32 partial sums alone and in one here: the same integers times the same scales, at
// most n / 4 of them. Each order is within (n / 4 + 4) roundings of the exact sum of what bytes and scales stand for:
// up to 255 steps and the lowest entry, times |x| and half a step of it.
TEST(Int8Matmul, IsWithinRoundingOfWhatTokensGetAloneWhereRowsHaveTheirOwnPalettes) {
  Random random(3);
  for (const TensorWish& wish : wishes(false)) {
    SCOPED_TRACE(describe(wish));
    const PackedWeight packed = pack_weight(random_tensor(wish, random));
    if (packed.kind != PackedKind::kRowPalette) continue;
    const Matrix<float> x = random_activations(5, packed.cols, random);
    const Matrix<float> together = products(packed, x), alone = products_one_by_one(packed, x);
    const double roundings = static_cast<double>(packed.layout.padded_inputs(packed.cols)) / 4 + 4;
    for (std::size_t t = 0; t < x.rows(); ++t) {
      double magnitude = 0.0;
      for (const float value : x.row(t)) magnitude += std::abs(static_cast<double>(value));
      for (const float value : x.row(t)) magnitude += 0.5 / 127 * std::abs(static_cast<double>(value));
      for (std::size_t r = 0; r < packed.rows; ++r) {
        const double weight = 255 * std::abs(static_cast<double>(packed.byte_step[r])) +
                              std::abs(static_cast<double>(packed.byte_lowest[r]));
        ASSERT_TRUE(test::near(static_cast<double>(together(t, r)), static_cast<double>(alone(t, r)),
                               {.abs = 2 * roundings * 0x1p-24 * 2 * weight * magnitude}))
            << "token " << t << " row " << r;
      }
    }
  }
}

// Seven steps of 3 bits would not divide the 255 of a byte: a grid's integers stay what they are.
TEST(Int8Matmul, BytesOfAGridAreItsCodes) {
  Random random(9);
  for (const unsigned bits : {2u, 3u, 4u}) {
    const PackedWeight packed = pack_weight(random_tensor({{Coding::kBlocks, 3, 64, bits, 64, 1}}, random));
    ASSERT_EQ(packed.kind, PackedKind::kSharedPalette);
    for (unsigned code = 0; code < 1u << bits; ++code) EXPECT_EQ(packed.byte_tables[code], code) << bits;
    for (std::size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(packed.byte_step[r], packed.row_scale[r]);
      EXPECT_EQ(packed.byte_lowest[r], -static_cast<float>(1u << (bits - 1)) * packed.row_scale[r]);
    }
  }
}

TEST(Int8Matmul, OfLargestWeightsAndActivationsDoesNotSaturate) {
  Random random(4);
  for (const unsigned bits : {1u, 6u}) {
    for (const std::size_t group : {std::size_t{0}, std::size_t{1}}) {
      const QuantizedTensor tensor =
          random_tensor({{Coding::kPalette, 17, 256, bits, group, 1}, false, false, true, 0.0, true}, random);
      const std::vector<float> w = decoded(tensor);
      for (const float value : {127.0f, -127.0f}) {
        Matrix<float> x(3, 256);
        std::fill(x.values().begin(), x.values().end(), value);
        const Matrix<float> y = products(pack_weight(tensor), x);
        for (std::size_t r = 0; r < tensor.rows(); ++r) {
          double sum = 0.0;
          for (std::size_t j = 0; j < 256; ++j) sum += static_cast<double>(w[r * 256 + j] * value);
          EXPECT_TRUE(test::near(static_cast<double>(y(2, r)), sum, {})) << bits << " bits, row " << r;
        }
      }
    }
  }
}

TEST(Int8Matmul, OfLargestCodesAndActivationsDoesNotOverflow) {
  Random random(8);
  for (const unsigned bits : {2u, 3u, 4u, 6u, 8u}) {
    for (const bool zeros : {false, true}) {
      PackedWeight packed =
          pack_weight(random_tensor({{Coding::kBlocks, 16, 64, bits, 32, 1}, false, zeros, true}, random));
      std::fill_n(packed.codes.data(), packed.codes.size(), std::uint8_t{255});
      std::fill_n(packed.block_zeros.data(), packed.block_zeros.size(), std::uint8_t{0});
      const auto* scales = reinterpret_cast<const std::uint16_t*>(packed.block_scales.data());
      const int weight = (1 << bits) - 1 - (zeros ? 0 : 1 << (bits - 1));
      for (const float value : {127.0f, -127.0f}) {
        Matrix<float> x(5, 64);
        std::fill(x.values().begin(), x.values().end(), value);
        const Matrix<float> y = products(packed, x);
        for (std::size_t r = 0; r < 16; ++r)
          EXPECT_EQ(y(4, r), 32.0f * static_cast<float>(weight) * value *
                                 (f16_to_f32(scales[r]) + f16_to_f32(scales[kPanelRows + r])))
              << bits << " bits, row " << r;
      }
    }
  }
}

TEST(Int8Matmul, TakesOutliersAndBiasAlong) {
  Random random(5);
  const QuantizedTensor tensor = random_tensor({{Coding::kPalette, 20, 70, 4, 1, 1}, true, false, false, 0.05}, random);
  const PackedWeight packed = pack_weight(tensor);
  ASSERT_FALSE(packed.outlier_values.empty());
  std::vector<float> bias(20);
  for (float& value : bias) value = static_cast<float>(random.normal());
  const auto op = make_packed_linear(tensor, bias, Compute::kInt8);
  const Matrix<float> x = random_activations(64, 70, random), without = products(packed, x);
  Matrix<float> y(64, 20);
  op->forward(x, y);
  for (std::size_t t = 0; t < 64; ++t)
    for (std::size_t r = 0; r < 20; ++r) EXPECT_EQ(y(t, r), without(t, r) + bias[r]);
}

TEST(Int8Matmul, GivesTheSameBitsOnAnyNumberOfThreadsAndInAnyCompany) {
  Random random(6);
  for (const std::size_t group : {std::size_t{0}, std::size_t{1}}) {
    const PackedWeight packed = pack_weight(random_tensor({{Coding::kPalette, 80, 70, 4, group, 1}}, random));
    const Matrix<float> x = random_activations(1030, 70, random);  // more than are taken at a time
    set_thread_count(1);
    const Matrix<float> on_one = products(packed, x);
    set_thread_count(5);
    const Matrix<float> on_many = products(packed, x);
    set_thread_count(0);
    EXPECT_TRUE(test::same_bits(on_many.values(), on_one.values()));
    Matrix<float> some(9, 80);
    multiply_int8_tokens(packed, active_int8_matvec(), active_int8_matmul(), {}, x.view().rows_slice(1021, 9), some);
    EXPECT_TRUE(test::same_bits(some.values(), on_one.values().subspan(1021 * 80)));
  }
}

TEST(Int8Matmul, PassesNaNOnToItsTokenOnly) {
  Random random(7);
  const PackedWeight packed = pack_weight(random_tensor({{Coding::kPalette, 5, 70, 4, 0, 1}}, random));
  Matrix<float> x = random_activations(9, 70, random);
  x(3, 40) = std::numeric_limits<float>::quiet_NaN();
  const Matrix<float> y = products(packed, x);
  for (std::size_t t = 0; t < 9; ++t)
    for (const float value : y.row(t)) EXPECT_EQ(std::isnan(value), t == 3);
}

}  // namespace
}  // namespace nibble::quant
