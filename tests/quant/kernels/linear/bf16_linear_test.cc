#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "quant/kernels/linear/packed_linear.h"
#include "tests/quant/kernels/example_tensors.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using test::describe;
using test::random_matrix;
using test::random_tensor;
using test::TensorWish;

constexpr std::size_t kTokens = 33;  // one more than go through the exact kernels

double rounded(float value) { return static_cast<double>(bf16_to_f32(f32_to_bf16(value))); }

// Every kind of packed weight, at odd sizes around panels, blocks and the tiles of 128 rows and 256 tokens.
std::vector<TensorWish> wishes(bool integers) {
  std::vector<TensorWish> all;
  const std::pair<std::size_t, std::size_t> shapes[] = {{1, 1}, {17, 33}, {130, 515}};
  for (const auto& [rows, cols] : shapes) {
    for (const unsigned bits : {1u, 3u, 4u, 6u, 8u})
      for (const std::size_t group : {std::size_t{0}, std::size_t{8}, std::size_t{1}})
        all.push_back(
            {{Coding::kPalette, rows, cols, bits, group, 1}, group == 8, false, integers, group == 1 ? 0.02 : 0.0});
    for (const unsigned bits : {4u, 8u})
      for (const bool zeros : {false, true})
        all.push_back({{Coding::kBlocks, rows, cols, bits, 32, 1}, false, zeros, integers, 0.0});
    for (const TensorWish& wish : test::block_palette_wishes(rows, cols, integers)) all.push_back(wish);
  }
  return all;
}

// Sums over the rounded operands, and of their magnitudes, in double; and what rounding made of the sums.
struct Reference {
  double sum = 0.0, magnitude = 0.0, unrounded = 0.0, unrounded_magnitude = 0.0;
};
Reference reference(std::span<const float> w, std::span<const float> x) {
  Reference result;
  for (std::size_t j = 0; j < w.size(); ++j) {
    const double product = rounded(w[j]) * rounded(x[j]);
    const double unrounded = static_cast<double>(w[j]) * static_cast<double>(x[j]);
    result.sum += product;
    result.magnitude += std::abs(product);
    result.unrounded += unrounded;
    result.unrounded_magnitude += std::abs(unrounded);
  }
  return result;
}

TEST(Bf16Linear, SumsRoundedOperandsWithinTheRoundingOfFloatSums) {
  Random random(1);
  for (const TensorWish& wish : wishes(false)) {
    SCOPED_TRACE(describe(wish));
    const QuantizedTensor tensor = random_tensor(wish, random);
    const auto op = make_packed_linear(tensor, {}, Compute::kBf16);
    const Matrix<float> x = random_matrix(kTokens, tensor.cols(), false, random);
    Matrix<float> y(kTokens, tensor.rows()), w(tensor.rows(), tensor.cols());
    op->forward(x, y);
    tensor.decode_rows(0, tensor.rows(), w.data());
    for (std::size_t t = 0; t < kTokens; ++t) {
      for (std::size_t r = 0; r < tensor.rows(); ++r) {
        const Reference expected = reference(w.row(r), x.row(t));
        const double sums = static_cast<double>(tensor.cols()) * 0x1p-24 * expected.magnitude;  // products are exact
        ASSERT_TRUE(test::near(static_cast<double>(y(t, r)), expected.sum, {.abs = sums})) << "row " << r;
        // The contract of the mode: each operand is off by 2^-8 of itself at most.
        const double mode = (0x1p-7 + 0x1p-16) * expected.unrounded_magnitude;
        ASSERT_TRUE(test::near(static_cast<double>(y(t, r)), expected.unrounded, {.abs = sums + mode}));
      }
    }
  }
}

TEST(Bf16Linear, IsExactWhereNothingIsRounded) {
  Random random(2);
  for (TensorWish wish : wishes(true)) {
    if (wish.spec.bits > 6) continue;  // larger integers than bfloat16 holds
    SCOPED_TRACE(describe(wish));
    const QuantizedTensor tensor = random_tensor(wish, random);
    std::vector<float> bias(tensor.rows(), 3.0f);
    const auto op = make_packed_linear(tensor, bias, Compute::kBf16);
    const Matrix<float> x = random_matrix(kTokens, tensor.cols(), true, random);
    Matrix<float> y(kTokens, tensor.rows()), w(tensor.rows(), tensor.cols());
    op->forward(x, y);
    tensor.decode_rows(0, tensor.rows(), w.data());
    for (const float value : w.values()) ASSERT_EQ(static_cast<double>(value), rounded(value));
    for (std::size_t t = 0; t < kTokens; ++t)
      for (std::size_t r = 0; r < tensor.rows(); ++r)
        ASSERT_EQ(static_cast<double>(y(t, r)), reference(w.row(r), x.row(t)).sum + 3.0);
  }
}

// More than one product takes, and a rest that is filled up.
TEST(Bf16Linear, ManyTokensAreEachTheirOwn) {
  Random random(6);
  const QuantizedTensor tensor = random_tensor({{Coding::kBlocks, 130, 64, 4, 32, 1}, false, false, true, 0.0}, random);
  const auto op = make_packed_linear(tensor, {}, Compute::kBf16);
  const Matrix<float> x = random_matrix(577, 64, true, random);
  Matrix<float> y(577, 130), w(130, 64);
  op->forward(x, y);
  tensor.decode_rows(0, 130, w.data());
  for (std::size_t t = 0; t < x.rows(); ++t)
    for (std::size_t r = 0; r < w.rows(); ++r)
      ASSERT_EQ(static_cast<double>(y(t, r)), reference(w.row(r), x.row(t)).sum) << t << ", " << r;
}

TEST(Bf16Linear, FewTokensAndGradientsAreExact) {
  Random random(3);
  const QuantizedTensor tensor = random_tensor({{Coding::kPalette, 40, 70, 4, 1, 1}}, random);
  const auto op = make_packed_linear(tensor, {}, Compute::kBf16),
             exact = make_packed_linear(tensor, {}, Compute::kExact);
  const Matrix<float> x = random_matrix(kTokens - 1, 70, false, random), dy = random_matrix(kTokens, 40, false, random);
  Matrix<float> y(kTokens - 1, 40), expected_y(kTokens - 1, 40), dx(kTokens, 70), expected_dx(kTokens, 70);
  op->forward(x, y);
  exact->forward(x, expected_y);
  EXPECT_TRUE(test::same_bits(y.values(), expected_y.values()));
  op->backward_input(dy, dx);
  exact->backward_input(dy, expected_dx);
  EXPECT_TRUE(test::same_bits(dx.values(), expected_dx.values()));
  EXPECT_EQ(op->weight_bytes(), exact->weight_bytes());
  EXPECT_EQ(op->kernel_name(), (active_isa() == Isa::kAmx ? "tiles_bf16_amx+" : "gemm_bf16+") + exact->kernel_name());
}

TEST(Bf16Linear, GivesTheSameBitsOnAnyNumberOfThreads) {
  Random random(4);
  const auto op =
      make_packed_linear(random_tensor({{Coding::kBlocks, 300, 256, 4, 32, 1}}, random), {}, Compute::kBf16);
  const Matrix<float> x = random_matrix(270, 256, false, random);
  Matrix<float> one(270, 300), many(270, 300);
  set_thread_count(1);
  op->forward(x, one);
  set_thread_count(3);
  op->forward(x, many);
  set_thread_count(0);
  EXPECT_TRUE(test::same_bits(one.values(), many.values()));
}

TEST(Bf16Linear, RefusesShapesThatDoNotFit) {
  Random random(5);
  const auto op = make_packed_linear(random_tensor({{Coding::kPalette, 5, 7, 4, 0, 1}}, random), {}, Compute::kBf16);
  Matrix<float> x(kTokens, 8), y(kTokens, 5);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { op->forward(x, y); }, "(5, 7)", "(33, 8)"));
}

}  // namespace
}  // namespace nibble::quant
