#include "calib/collect/accumulate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "tests/support/compare.h"

namespace nibble::calib {
namespace {

Matrix<float> drawn(std::size_t rows, std::size_t cols, std::uint64_t seed) {
  Random random(seed);
  Matrix<float> m(rows, cols);
  for (float& value : m.values()) value = static_cast<float>(0.3 + random.normal());
  return m;
}

double at(const Matrix<float>& m, std::size_t r, std::size_t c) { return static_cast<double>(m(r, c)); }

// 3 windows of 10; more than one tile of 256 in every direction, with odd remainders.
constexpr std::size_t kWindow = 10, kTokens = 30, kIn = 259, kOut = 301;

struct Accumulate : testing::Test {
  const std::vector<std::size_t> windows{0, kWindow, 2 * kWindow, kTokens};
  const Matrix<float> x = drawn(kTokens, kIn, 1), dy = drawn(kTokens, kOut, 2);
};

// Products of a window are float sums of 10 terms of size about 1: each within 10 · 2^-24 · 10 = 6e-6 of exact; squares
// of sums of size up to about 30 then within 2 · 30 · 6e-6, and three windows add.
constexpr test::Bound kProductBound = {.abs = 1.2e-3, .rel = 1e-5};

TEST_F(Accumulate, ActivationsMatchPlainLoopsExactly) {
  LayerSums sums("layer", 1, kIn, {.activations = true});
  add_activations(x.view().rows_slice(0, 20), sums);
  add_activations(x.view().rows_slice(20, 10), sums);  // in two batches: the same order of additions
  for (std::size_t c = 0; c < kIn; ++c) {
    double sum = 0.0, squares = 0.0, magnitudes = 0.0;
    float smallest = x(0, c), largest = x(0, c);
    for (std::size_t t = 0; t < kTokens; ++t) {
      sum += at(x, t, c);
      squares += at(x, t, c) * at(x, t, c);
      magnitudes += std::abs(at(x, t, c));
      smallest = std::fmin(smallest, x(t, c));
      largest = std::fmax(largest, x(t, c));
    }
    EXPECT_EQ(sums.sum_x[c], sum);
    EXPECT_EQ(sums.sum_x2[c], squares);
    EXPECT_EQ(sums.sum_abs_x[c], magnitudes);
    EXPECT_EQ(sums.min_x[c], smallest);
    EXPECT_EQ(sums.max_x[c], largest);
  }
}

TEST_F(Accumulate, SequenceFisherSquaresTheGradientOfEachWindow) {
  Matrix<double> fisher(kOut, kIn), expected(kOut, kIn);
  add_fisher(FisherFlavour::kSequence, x, dy, windows, fisher);
  for (std::size_t o = 0; o < kOut; ++o) {
    for (std::size_t i = 0; i < kIn; ++i) {
      for (std::size_t w = 0; w < kTokens; w += kWindow) {
        double g = 0.0;
        for (std::size_t t = w; t < w + kWindow; ++t) g += at(dy, t, o) * at(x, t, i);
        expected(o, i) += g * g;
      }
    }
  }
  EXPECT_TRUE(test::all_near(fisher.values(), expected.values(), kProductBound));
}

// As an expert's rows come: so many of one window, none of the next. The longest window is 2.6 times that of the bound
// above, its sums 1.6 times as large, each error 2.6 · 1.6 · 1.6 times.
TEST_F(Accumulate, WindowsMayBeUnevenAndEmpty) {
  const std::vector<std::size_t> uneven{0, 3, 3, kTokens - 1, kTokens};
  Matrix<double> fisher(kOut, kIn), expected(kOut, kIn);
  add_fisher(FisherFlavour::kSequence, x, dy, uneven, fisher);
  for (std::size_t o = 0; o < kOut; ++o) {
    for (std::size_t i = 0; i < kIn; ++i) {
      for (std::size_t w = 0; w + 1 < uneven.size(); ++w) {
        double g = 0.0;
        for (std::size_t t = uneven[w]; t < uneven[w + 1]; ++t) g += at(dy, t, o) * at(x, t, i);
        expected(o, i) += g * g;
      }
    }
  }
  EXPECT_TRUE(test::all_near(fisher.values(), expected.values(), {.abs = 1e-2, .rel = 1e-5}));
}

TEST_F(Accumulate, PositionFisherSquaresBeforeSumming) {
  Matrix<double> fisher(kOut, kIn), expected(kOut, kIn);
  add_fisher(FisherFlavour::kPosition, x, dy, windows, fisher);
  for (std::size_t o = 0; o < kOut; ++o)
    for (std::size_t i = 0; i < kIn; ++i)
      for (std::size_t t = 0; t < kTokens; ++t) expected(o, i) += std::pow(at(dy, t, o) * at(x, t, i), 2);
  EXPECT_TRUE(test::all_near(fisher.values(), expected.values(), kProductBound));
}

TEST_F(Accumulate, HessianIsXtXAndSymmetricToTheBit) {
  Matrix<double> h(kIn, kIn), expected(kIn, kIn);
  add_hessian(x, windows, h);
  mirror_upper(h);
  for (std::size_t i = 0; i < kIn; ++i)
    for (std::size_t j = 0; j < kIn; ++j)
      for (std::size_t t = 0; t < kTokens; ++t) expected(i, j) += at(x, t, i) * at(x, t, j);
  EXPECT_TRUE(test::all_near(h.values(), expected.values(), kProductBound));
  for (std::size_t i = 0; i < kIn; ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_EQ(h(i, j), h(j, i));
}

TEST_F(Accumulate, GuidedHessianWeightsTokensByTheMeanSquaredGradient) {
  LayerSums sums("layer", kOut, kIn, {.guided_hessian = true});
  add_guided_hessian(x, token_weights(dy, {}, windows), windows, sums);
  mirror_upper(sums.sum_s_xxt);
  double total = 0.0, squares = 0.0;
  std::vector<double> first(kIn);
  Matrix<double> second(kIn, kIn);
  for (std::size_t t = 0; t < kTokens; ++t) {
    double s = 0.0;
    for (std::size_t o = 0; o < kOut; ++o) s += at(dy, t, o) * at(dy, t, o) / static_cast<double>(kOut);
    total += s;
    squares += s * s;
    for (std::size_t i = 0; i < kIn; ++i) {
      first[i] += s * at(x, t, i);
      for (std::size_t j = 0; j < kIn; ++j) second(i, j) += s * at(x, t, i) * at(x, t, j);
    }
  }
  // Double sums of 30 tokens; s itself in another order of 301 terms.
  EXPECT_TRUE(test::near(sums.sum_s, total, {.rel = 1e-13}));
  EXPECT_TRUE(test::near(*sums.sum_s2, squares, {.rel = 1e-13}));
  EXPECT_TRUE(test::all_near(sums.sum_s_x, first, {.abs = 1e-12, .rel = 1e-12}));
  EXPECT_TRUE(test::all_near(sums.sum_s_xxt.values(), second.values(), kProductBound));
}

// More than one tile of 256 outputs, windows as uneven as an expert's.
TEST_F(Accumulate, OutputHessianIsTheGradientsOverPairsOfOutputsAndSymmetricToTheBit) {
  const std::vector<std::size_t> uneven{0, 3, 3, kTokens - 1, kTokens};
  for (const auto& cut : {windows, uneven}) {
    Matrix<double> h(kOut, kOut), expected(kOut, kOut);
    add_output_hessian(dy, {}, cut, h);
    mirror_upper(h);
    for (std::size_t i = 0; i < kOut; ++i)
      for (std::size_t j = 0; j < kOut; ++j)
        for (std::size_t t = 0; t < kTokens; ++t) expected(i, j) += at(dy, t, i) * at(dy, t, j);
    EXPECT_TRUE(test::all_near(h.values(), expected.values(), kProductBound));
    for (std::size_t i = 0; i < kOut; ++i)
      for (std::size_t j = 0; j < i; ++j) EXPECT_EQ(h(i, j), h(j, i));
  }
}

TEST_F(Accumulate, AnOutputHessianAddsToWhatIsThere) {
  Matrix<double> once(kOut, kOut), parts(kOut, kOut);
  add_output_hessian(dy, {}, windows, once);
  add_output_hessian(dy.view().rows_slice(0, 20), {}, std::vector<std::size_t>{0, 10, 20}, parts);
  add_output_hessian(dy.view().rows_slice(20, 10), {}, std::vector<std::size_t>{0, 10}, parts);
  EXPECT_TRUE(test::same_bits(parts.values(), once.values())) << "windows are added one by one, in whatever batches";
  const Matrix<double> before = parts;
  add_output_hessian(dy.view().rows_slice(0, 0), {}, std::vector<std::size_t>{0, 0}, parts);
  EXPECT_TRUE(test::same_bits(parts.values(), before.values())) << "an expert that no token chose";
}

TEST_F(Accumulate, CentringSubtractsTheMeanOfEachColumn) {
  std::vector<double> mean(kIn);
  for (std::size_t i = 0; i < kIn; ++i) mean[i] = 0.1 * static_cast<double>(i);
  const Matrix<float> shifted = centred(x, mean);
  EXPECT_EQ(shifted(7, 11), static_cast<float>(at(x, 7, 11) - mean[11]));
}

// Z in float has errors of 301 roundings of sums of size 301 · 0.1, relative to squares of sums of that size.
TEST_F(Accumulate, TokensWeighTheMeanSquareOfWhatIsWhitened) {
  Matrix<float> whitening = drawn(kOut, kOut, 3);
  for (std::size_t o = 0; o < kOut; ++o)
    for (std::size_t p = o + 1; p < kOut; ++p) whitening(o, p) = 0.0f;
  const std::vector<double> weights = token_weights(dy, whitening, windows);
  ASSERT_EQ(weights.size(), kTokens);
  for (std::size_t t = 0; t < kTokens; ++t) {
    double expected = 0.0;
    for (std::size_t o = 0; o < kOut; ++o) {
      double z = 0.0;
      for (std::size_t p = 0; p < kOut; ++p) z += at(whitening, o, p) * at(dy, t, p);
      expected += z * z / static_cast<double>(kOut);
    }
    EXPECT_TRUE(test::near(weights[t], expected, {.rel = 1e-4}));
  }
}

TEST_F(Accumulate, OutputHessianWeighsTokens) {
  std::vector<double> r(kTokens);
  for (std::size_t t = 0; t < kTokens; ++t) r[t] = 0.1 * static_cast<double>(t);
  Matrix<double> sums(kOut, kOut), expected(kOut, kOut);
  add_output_hessian(dy, r, windows, sums);
  mirror_upper(sums);
  for (std::size_t i = 0; i < kOut; ++i)
    for (std::size_t j = 0; j < kOut; ++j)
      for (std::size_t t = 0; t < kTokens; ++t) expected(i, j) += r[t] * at(dy, t, i) * at(dy, t, j);
  EXPECT_TRUE(test::all_near(sums.values(), expected.values(), kProductBound));
}

TEST_F(Accumulate, ResultsDoNotDependOnThreads) {
  const auto run = [&](std::size_t threads) {
    set_thread_count(threads);
    LayerSums sums(
        "layer", kOut, kIn,
        {.activations = true, .fisher = true, .hessian = true, .guided_hessian = true, .output_hessian = true});
    add_activations(x, sums);
    add_fisher(FisherFlavour::kSequence, x, dy, windows, sums.fisher);
    add_hessian(x, windows, sums.sum_xxt);
    add_guided_hessian(x, token_weights(dy, {}, windows), windows, sums);
    add_output_hessian(dy, {}, windows, sums.sum_dydyt);
    set_thread_count(0);
    return sums;
  };
  const LayerSums one = run(1), three = run(3);
  EXPECT_TRUE(test::same_bits(one.sum_x2, three.sum_x2));
  EXPECT_TRUE(test::same_bits(one.fisher.values(), three.fisher.values()));
  EXPECT_TRUE(test::same_bits(one.sum_xxt.values(), three.sum_xxt.values()));
  EXPECT_TRUE(test::same_bits(one.sum_s_xxt.values(), three.sum_s_xxt.values()));
  EXPECT_TRUE(test::same_bits(one.sum_dydyt.values(), three.sum_dydyt.values()));
}

TEST(FindNotFinite, GivesTheFirstPosition) {
  Matrix<float> x = drawn(130, 70, 5);
  EXPECT_FALSE(find_not_finite(x).has_value());
  x(129, 3) = std::numeric_limits<float>::quiet_NaN();
  x(65, 69) = -std::numeric_limits<float>::infinity();
  const auto found = find_not_finite(x);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->row, 65u);
  EXPECT_EQ(found->col, 69u);
  x(65, 69) = std::numeric_limits<float>::max();
  EXPECT_EQ(find_not_finite(x)->row, 129u);
}

}  // namespace
}  // namespace nibble::calib
