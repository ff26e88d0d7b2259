#include "quant/kernels/int8/int8_matvec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "core/random.h"
#include "quant/kernels/int8/activations.h"
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

struct Quantized {
  explicit Quantized(const std::vector<float>& x, const Int8MatvecTable& kernels = active_int8_matvec())
      : values(x.size()), scales(x.size() / kBlock), sums(x.size() / kBlock) {
    kernels.quantize(x.data(), x.size(), values.data(), scales.data(), sums.data());
  }
  std::vector<std::int8_t> values;
  std::vector<float> scales;
  std::vector<std::int32_t> sums;
};

std::vector<float> awkward_activations() {
  Random random(1);
  std::vector<float> x(12 * kBlock);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(random.normal() * std::pow(10.0, static_cast<double>(i / kBlock) * 6 - 36));
  std::fill_n(x.begin() + 3 * kBlock, kBlock, 0.0f);
  for (std::size_t i = 0; i < kBlock; ++i) x[4 * kBlock + i] = static_cast<float>(i) - 15.5f;  // ties
  x[4 * kBlock] = 127.0f;
  return x;
}

TEST(QuantizedActivations, AreWithinHalfAStepOfTheirBlock) {
  const std::vector<float> x = awkward_activations();
  const Quantized q(x);
  for (std::size_t block = 0; block < q.scales.size(); ++block) {
    double largest = 0.0;
    std::int32_t sum = 0;
    for (std::size_t i = block * kBlock; i < (block + 1) * kBlock; ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(x[i])));
      sum += q.values[i];
      const double scale = static_cast<double>(q.scales[block]);
      // Half a step, and what rounding of scale and product in float32 moves 127 steps by: 127 · 3 · 2^-24; the
      // smallest floats are coarser than that.
      EXPECT_TRUE(test::near(scale * q.values[i], static_cast<double>(x[i]), {.abs = 0.5001 * scale + 127 * 0x1p-149}));
    }
    EXPECT_TRUE(test::near(static_cast<double>(q.scales[block]), largest / 127, {.abs = 0x1p-149, .rel = 0x1p-23}));
    EXPECT_EQ(q.sums[block], sum);
  }
}

TEST(QuantizedActivations, AreTheSameOnEveryProcessor) {
  const std::vector<float> x = awkward_activations();
  const Quantized here(x), portable(x, kInt8MatvecScalar);
  EXPECT_EQ(here.values, portable.values);
  EXPECT_EQ(here.sums, portable.sums);
  EXPECT_TRUE(test::same_bits(here.scales, portable.scales));
}

TEST(QuantizedActivations, AreTakenApart) {
  const std::vector<float> x = awkward_activations();
  for (const std::size_t block : {kBlock, kBlock / 2}) {
    QuantizedActivations q;
    quantize_activations(x, x.size(), active_int8_matvec().quantize, {.block = block, .apart = true}, q);
    double less_total = 0.0, magnitude = 0.0;
    for (std::size_t first = 0; first < x.size(); first += block) {
      int less = 0;
      for (std::size_t j = first; j < first + block; ++j) {
        ASSERT_EQ(q.negative[j], q.values[j] < 0 ? -1 : 0);
        ASSERT_EQ(q.magnitudes[j], std::abs(q.values[j]));
        less += q.values[j] < 0 ? -q.values[j] : 0;
      }
      ASSERT_EQ(q.less[first / block], less);
      less_total += static_cast<double>(q.scales[first / block]) * less;
      magnitude += std::abs(static_cast<double>(q.scales[first / block]) * less);
    }
    EXPECT_GT(magnitude, 0.0);
    EXPECT_TRUE(test::near(static_cast<double>(q.less_total), less_total, {.rel = 0x1p-24}));  // one rounding
  }
}

TEST(QuantizedActivations, OfABlockWithNaNOrInfinityAreNaN) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const std::size_t place : {0u, 9u, 31u}) {
      std::vector<float> x(2 * kBlock, 1.0f);
      x[kBlock + place] = bad;
      const Quantized q(x);
      EXPECT_TRUE(std::isnan(q.scales[1])) << bad << " at " << place;
      EXPECT_EQ(q.sums[1], 0);
      EXPECT_EQ(q.values[0], 127) << "other blocks are left alone";
      EXPECT_EQ(q.sums[0], 32 * 127);
    }
  }
}

// 127 over the largest of them would be infinite.
TEST(QuantizedActivations, TooSmallForAScaleAreZeros) {
  for (const float tiny : {0x1p-121f, 2e-37f, 1e-40f, 0x1p-149f}) {
    std::vector<float> x(2 * kBlock, 0.0f);
    x[3] = -tiny, x[7] = tiny;
    x[kBlock] = 0x1.000002p-121f;
    const Quantized q(x);
    for (std::size_t i = 0; i < kBlock; ++i) EXPECT_EQ(q.values[i], 0) << tiny;
    EXPECT_EQ(q.sums[0], 0);
    EXPECT_EQ(q.values[kBlock], 127);
    EXPECT_EQ(q.sums[1], 127);
  }
}

std::vector<TensorWish> wishes() {
  std::vector<TensorWish> all;
  for (const auto& [rows, cols] :
       {std::pair<std::size_t, std::size_t>{1, 1}, {15, 31}, {17, 33}, {35, 129}, {16, 515}}) {
    for (const unsigned bits : {1u, 2u, 3u, 4u, 5u, 6u})
      for (const std::size_t group : {std::size_t{0}, std::size_t{16}, std::size_t{8}, std::size_t{1}})
        all.push_back(
            {{Coding::kPalette, rows, cols, bits, group, 1}, group == 8, false, true, group == 1 ? 0.02 : 0.0, true});
    for (const unsigned bits : {2u, 3u, 4u, 5u, 6u, 7u, 8u})
      for (const std::size_t width : {std::size_t{0}, std::size_t{32}, std::size_t{64}})
        for (const bool zeros : {false, true})
          all.push_back({{Coding::kBlocks, rows, cols, bits, width, 1}, false, zeros, true});
    for (const TensorWish& wish : test::block_palette_wishes(rows, cols, true)) all.push_back(wish);
  }
  return all;
}

TEST(Int8Products, OfIntegersThat8BitsHoldAreExact) {
  Random random(2);
  for (const TensorWish& wish : wishes()) {
    SCOPED_TRACE(describe(wish));
    const QuantizedTensor tensor = random_tensor(wish, random);
    // Whole-row blocks of up to 4 bits become palettes of -2^(b-1) … 2^(b-1) - 1, whose step is no power of two.
    if (wish.spec.coding == Coding::kBlocks && tensor.spec().blocks() == 1 && !wish.zero_points) continue;
    const auto op = make_packed_linear(tensor, {}, Compute::kInt8);
    ASSERT_NE(op->kernel_name().find("int8"), std::string::npos);
    std::vector<float> w(tensor.rows() * tensor.cols());
    tensor.decode_rows(0, tensor.rows(), w.data());
    for (const std::size_t tokens : {2u, 21u}) {  // one by one, and together in tiles
      const Matrix<float> x = byte_activations(tokens, tensor.cols(), random);
      Matrix<float> y(tokens, tensor.rows());
      op->forward(x, y);
      for (std::size_t t = 0; t < tokens; ++t) {
        for (std::size_t r = 0; r < tensor.rows(); ++r) {
          double sum = 0.0;  // of at most 33 · 255 · 2 · 127 + 515 · 255 · 2 · 7: exact in float, too
          for (std::size_t j = 0; j < tensor.cols(); ++j)
            sum += static_cast<double>(w[r * tensor.cols() + j]) * static_cast<double>(x(t, j));
          ASSERT_TRUE(test::near(static_cast<double>(y(t, r)), sum, {}))
              << "token " << t << " of " << tokens << ", row " << r;
        }
      }
    }
  }
}

TEST(Int8Products, LargestWeightsTimesLargestActivationsDoNotSaturate) {
  const std::size_t cols = 256;
  for (const std::size_t tokens : {1u, 20u}) {
    Matrix<float> x(tokens, cols), y(tokens, 3);
    for (const float value : {127.0f, -127.0f}) {
      std::fill(x.values().begin(), x.values().end(), value);
      for (const unsigned bits : {1u, 6u}) {
        for (const std::size_t group : {std::size_t{0}, std::size_t{1}}) {
          Random random(bits);
          const QuantizedTensor tensor =
              random_tensor({{Coding::kPalette, 3, cols, bits, group, 1}, false, false, true, 0.0, true}, random);
          const auto op = make_packed_linear(tensor, {}, Compute::kInt8);
          op->forward(x, y);
          std::vector<float> w(3 * cols);
          tensor.decode_rows(0, 3, w.data());
          for (std::size_t r = 0; r < 3; ++r) {
            double sum = 0.0;
            for (std::size_t j = 0; j < cols; ++j) sum += static_cast<double>(w[r * cols + j] * value);
            EXPECT_TRUE(test::near(static_cast<double>(y(tokens - 1, r)), sum, {})) << bits << " bits, row " << r;
          }
        }
      }
    }
  }
}

TEST(Int8Products, OfOneTokenLargestCodesTimesLargestActivationsDoNotOverflow) {
  Random random(8);
  for (const unsigned bits : {2u, 3u, 4u, 6u, 8u}) {
    for (const bool zeros : {false, true}) {
      PackedWeight packed =
          pack_weight(random_tensor({{Coding::kBlocks, 16, 64, bits, 32, 1}, false, zeros, true}, random));
      std::fill_n(packed.block_zeros.data(), packed.block_zeros.size(), std::uint8_t{0});
      auto* scales = reinterpret_cast<std::uint16_t*>(packed.block_scales.data());
      std::fill_n(scales, packed.block_scales.size() / 2, f32_to_f16(1.0f));
      for (const std::uint8_t codes : {std::uint8_t{0}, std::uint8_t{255}}) {
        std::fill_n(packed.codes.data(), packed.codes.size(), codes);
        const int code = codes == 0 ? 0 : (1 << bits) - 1, weight = code - (zeros ? 0 : 1 << (bits - 1));
        for (const std::size_t negative : {std::size_t{0}, std::size_t{1}, std::size_t{40}, std::size_t{64}}) {
          std::vector<float> x(64, 127.0f), y(16);
          std::fill_n(x.begin(), negative, -127.0f);
          multiply_int8(packed, active_int8_matvec(), {}, x, y);
          const int inputs = 64 - 2 * static_cast<int>(negative);
          for (std::size_t r = 0; r < 16; ++r)
            ASSERT_EQ(y[r], static_cast<float>(127 * weight * inputs)) << bits << " bits, " << negative << " negative";
        }
      }
    }
  }
}

TEST(Int8Products, OfTokensTogetherAreThoseOfEachAlone) {
  Random random(3);
  for (const TensorWish& wish : wishes()) {
    SCOPED_TRACE(describe(wish));
    const QuantizedTensor tensor = random_tensor(wish, random);
    const std::size_t rows = tensor.rows(), cols = tensor.cols();
    const auto op = make_packed_linear(tensor, {}, Compute::kInt8);
    Matrix<float> x(19, cols), together(19, rows), alone(1, rows);
    for (float& value : x.values()) value = static_cast<float>(random.normal());
    op->forward(x, together);
    std::vector<float> w(rows * cols);
    tensor.decode_rows(0, rows, w.data());
    double largest = 0.0;
    for (const float value : w) largest = std::max(largest, std::abs(static_cast<double>(value)));
    for (std::size_t t = 0; t < x.rows(); ++t) {
      op->forward(x.view().rows_slice(t, 1), alone);
      for (std::size_t r = 0; r < rows; ++r) {
        // The same integers; float sums of at most 17 blocks, of a few roundings each, in another order. Palettes in
        // bytes add up to 3 times the largest weight per input, some of which cancels.
        double magnitude = 0.0;
        for (std::size_t j = 0; j < cols; ++j) magnitude += 4.0 * largest * std::abs(static_cast<double>(x(t, j)));
        ASSERT_TRUE(test::near(together(t, r), alone(0, r), {.abs = magnitude * 64 * 0x1p-24}))
            << "token " << t << " row " << r;
      }
    }
  }
}

TEST(Int8Products, OfATokenWithNaNAreNaNAndOthersAreNot) {
  Random random(5);
  const QuantizedTensor tensor = random_tensor({{Coding::kBlocks, 20, 70, 4, 32, 1}}, random);
  const auto op = make_packed_linear(tensor, {}, Compute::kInt8);
  Matrix<float> x(18, 70), y(18, 20);
  std::fill(x.values().begin(), x.values().end(), 1.0f);
  x(11, 40) = std::numeric_limits<float>::quiet_NaN();
  op->forward(x, y);
  for (std::size_t t = 0; t < 18; ++t)
    for (std::size_t r = 0; r < 20; ++r) EXPECT_EQ(std::isnan(y(t, r)), t == 11) << "token " << t << " row " << r;
}

TEST(Int8Products, GiveTheSameBitsOnAnyNumberOfThreads) {
  Random random(4);
  for (const std::size_t group : {std::size_t{0}, std::size_t{1}}) {
    const auto op =
        make_packed_linear(random_tensor({{Coding::kPalette, 3000, 300, 4, group, 1}}, random), {}, Compute::kInt8);
    for (const std::size_t tokens : {1u, 35u}) {
      Matrix<float> x(tokens, 300), on_one(tokens, 3000), on_many(tokens, 3000);
      for (float& value : x.values()) value = static_cast<float>(random.normal());
      set_thread_count(1);
      op->forward(x, on_one);
      set_thread_count(5);
      op->forward(x, on_many);
      set_thread_count(0);
      EXPECT_TRUE(test::same_bits(on_many.values(), on_one.values()));
    }
  }
}

}  // namespace
}  // namespace nibble::quant
