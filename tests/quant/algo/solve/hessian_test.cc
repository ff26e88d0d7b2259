#include "quant/algo/solve/hessian.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "tests/quant/algo/solve/hessian_problem.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using namespace quant::test;
using nibble::test::near;
using nibble::test::same_bits;
using nibble::test::throws_with;

/// Largest entry of UᵀU (H + damping) - I, H in the factor's order, silent inputs as the factor sees them.
double residual(const HessianFactor& factor, const Matrix<float>& h, double silent_diagonal = 0.0) {
  const std::size_t n = h.rows();
  Matrix<double> damped(n, n), uh(n, n);
  for (std::size_t p = 0; p < n; ++p) {
    for (std::size_t q = 0; q < n; ++q) {
      const std::size_t i = factor.order[p], j = factor.order[q];
      const bool silent = factor.silent[i] != 0 || factor.silent[j] != 0;
      damped(p, q) = !silent ? static_cast<double>(h(i, j)) : (p == q ? silent_diagonal : 0.0);
      damped(p, q) += p == q ? factor.damping[i] : 0.0;
    }
  }
  for (std::size_t p = 0; p < n; ++p)
    for (std::size_t k = p; k < n; ++k)
      for (std::size_t q = 0; q < n; ++q) uh(p, q) += static_cast<double>(factor.upper(p, k)) * damped(k, q);
  double worst = 0.0;
  for (std::size_t p = 0; p < n; ++p) {
    for (std::size_t q = 0; q < n; ++q) {
      double sum = p == q ? -1.0 : 0.0;
      for (std::size_t k = 0; k <= p; ++k) sum += static_cast<double>(factor.upper(k, p)) * uh(k, q);
      worst = std::max(worst, std::abs(sum));
    }
  }
  return worst;
}

TEST(FactorHessian, GivesTheUpperFactorOfTheDampedInverse) {
  for (const std::size_t n : {1u, 2u, 5u, 128u, 129u, 260u}) {
    for (const bool act_order : {false, true}) {
      for (const bool in_double : {false, true}) {
        SCOPED_TRACE(testing::Message() << n << " inputs, act-order " << act_order << ", double " << in_double);
        const Matrix<float> h = random_hessian(n, 2 * n + 8, n);
        const HessianFactor factor =
            factor_hessian<float>(h.view(), {.damping = 0.01, .act_order = act_order, .in_double = in_double});
        EXPECT_EQ(factor.damping_share, 0.01);
        EXPECT_EQ(factor.silent_inputs, 0u);
        for (std::size_t p = 0; p < n; ++p)
          for (std::size_t q = 0; q < p; ++q) ASSERT_EQ(factor.upper(p, q), 0.0f);
        // U is rounded to float, entry by entry; the product with H magnifies that by at most the condition number:
        // some 5 n (the common part) / 0.01 (the damping) here. Rounding errors of the float factor grow alike.
        EXPECT_LT(residual(factor, h), 500.0 * static_cast<double>(n) * 0x1p-24);
      }
    }
  }
}

TEST(FactorHessian, DampsByTheOwnOrTheMeanDiagonal) {
  Matrix<float> h = random_hessian(30, 90, 8);
  for (std::size_t j = 0; j < 30; ++j) h(4, j) = h(j, 4) = 0.0f;  // silent, and no part of the mean
  double mean = 0.0;
  for (std::size_t j = 0; j < 30; ++j) mean += static_cast<double>(h(j, j)) / 29.0;
  const HessianFactor own = factor_hessian<float>(h.view(), {.damping = 0.25}),
                      shared = factor_hessian<float>(h.view(), {.damping = 0.25, .unit = DampingUnit::kMean});
  for (std::size_t j = 0; j < 30; ++j) {
    const double diagonal = j == 4 ? mean : static_cast<double>(h(j, j));
    EXPECT_TRUE(near(own.damping[j], 0.25 * diagonal, {.rel = 1e-14})) << j;  // 30 sums in double
    EXPECT_TRUE(near(shared.damping[j], 0.25 * mean, {.rel = 1e-14})) << j;
  }
}

TEST(FactorHessian, ActOrderSortsByDecreasingDiagonalAndKeepsTheOrderOfEqualOnes) {
  Matrix<float> h = identity(6);
  for (const std::size_t j : {2u, 5u}) h(j, j) = 3.0f;
  h(1, 1) = 0.0f;
  EXPECT_EQ(factor_hessian<float>(h.view(), {}).order, (std::vector<std::size_t>{2, 5, 0, 3, 4, 1}));
  EXPECT_EQ(factor_hessian<float>(h.view(), {.act_order = false}).order, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5}));
}

TEST(FactorHessian, InputsWithoutInformationStandAlone) {
  Matrix<float> h = random_hessian(20, 60, 3);
  const std::vector<std::size_t> dead{4, 11};
  for (const std::size_t j : dead) h(j, j) = j == 4 ? 0.0f : -1e-7f;  // never active; centred and constant
  const HessianFactor factor = factor_hessian<float>(h.view(), {});
  EXPECT_EQ(factor.silent_inputs, 2u);
  double mean = 0.0;
  for (std::size_t j = 0; j < 20; ++j) mean += std::max(0.0, static_cast<double>(h(j, j))) / 18.0;
  for (std::size_t j = 0; j < 20; ++j)  // the mean of the others stands for what a silent one has not
    EXPECT_TRUE(
        near(factor.damping[j], 0.01 * (factor.silent[j] != 0 ? mean : static_cast<double>(h(j, j))), {.rel = 1e-12}));
  EXPECT_LT(residual(factor, h, mean), 500.0 * 20.0 * 0x1p-24);
  for (std::size_t p = 0; p < 20; ++p) {
    for (std::size_t q = p + 1; q < 20; ++q) {
      const bool alone = factor.silent[factor.order[p]] != 0 || factor.silent[factor.order[q]] != 0;
      EXPECT_EQ(factor.upper(p, q) == 0.0f, alone);
    }
  }
}

TEST(FactorHessian, DampingRisesUntilTheHessianIsPositiveDefinite) {
  Matrix<float> rank_one(40, 40), indefinite = identity(2), duplicated = random_hessian(30, 90, 5);
  for (std::size_t i = 0; i < 40; ++i)
    for (std::size_t j = 0; j < 40; ++j) rank_one(i, j) = static_cast<float>((i % 5 + 1) * (j % 5 + 1));
  indefinite(0, 1) = indefinite(1, 0) = 2.0f;
  for (std::size_t j = 0; j < 30; ++j) duplicated(7, j) = duplicated(3, j);
  for (std::size_t i = 0; i < 30; ++i) duplicated(i, 7) = duplicated(i, 3);
  for (const Matrix<float>* h : {&rank_one, &indefinite, &duplicated}) {
    const HessianFactor factor = factor_hessian<float>(h->view(), {.damping = 0.0});
    EXPECT_GT(factor.damping_share, 0.0);
    EXPECT_TRUE(std::isfinite(std::accumulate(factor.upper.values().begin(), factor.upper.values().end(), 0.0f)));
  }
  // Eigenvalues 3 and -1: 0.1 and 1 leave it indefinite or singular, 10 does not.
  EXPECT_EQ(factor_hessian<float>(indefinite.view(), {.damping = 0.1}).damping_share, 10.0);
  // 0.01 suffices where the true eigenvalues are not negative: published settings stay as they are.
  EXPECT_EQ(factor_hessian<float>(rank_one.view(), {}).damping_share, 0.01);
  EXPECT_EQ(factor_hessian<float>(duplicated.view(), {}).damping_share, 0.01);
}

TEST(FactorHessian, AHessianOfZerosIsTheIdentity) {
  const Matrix<float> h(5, 5);
  const HessianFactor factor = factor_hessian<float>(h.view(), {.damping = 0.0});
  EXPECT_EQ(factor.silent_inputs, 5u);
  EXPECT_TRUE(same_bits(factor.upper.values(), identity(5).values()));
}

TEST(FactorHessian, WhatCannotBeFactoredIsNamed) {
  Matrix<float> h = identity(4);
  h(2, 1) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(
      throws_with<NumericalError>([&] { (void)factor_hessian<float>(h.view(), {}); }, "row 2", "column 1", "nan"));
  Matrix<double> infinite(3, 3);
  infinite(0, 2) = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(throws_with<NumericalError>([&] { (void)factor_hessian<double>(infinite.view(), {}); }, "row 0",
                                          "column 2", "inf"));
  Matrix<float> hopeless = identity(2);
  hopeless(0, 1) = hopeless(1, 0) = 1e6f;
  EXPECT_TRUE(
      throws_with<NumericalError>([&] { (void)factor_hessian<float>(hopeless.view(), {}); }, "not positive definite"));
  EXPECT_TRUE(
      throws_with<InvalidArgument>([&] { (void)factor_hessian<float>(Matrix<float>(2, 3).view(), {}); }, "(2, 3)"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)factor_hessian<float>(identity(2).view(), {.damping = -1.0}); },
                                           "damping"));
}

TEST(FactorHessian, ThreadsDoNotChangeTheFactor) {
  const Matrix<float> h = random_hessian(400, 20, 9);
  std::vector<HessianFactor> factors;
  for (const std::size_t threads : {1u, 3u}) {
    set_thread_count(threads);
    factors.push_back(factor_hessian<float>(h.view(), {}));
  }
  set_thread_count(0);
  EXPECT_TRUE(same_bits(factors[0].upper.values(), factors[1].upper.values()));
}

TEST(HessianError, IsTheTraceInPlainLoops) {
  for (const std::size_t rows : {1u, 130u}) {
    const Matrix<float> h = random_hessian(33, 70, rows), delta = random_weights(rows, 33, 2);
    Matrix<double> exact(rows, 33);
    std::copy(delta.values().begin(), delta.values().end(), exact.values().begin());
    // Sums of 33 products in float; the common part makes few of them cancel.
    EXPECT_TRUE(near(hessian_error(delta.view(), h.view()), plain_error(exact, h), {.rel = 1e-5}));
  }
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [] { (void)hessian_error(Matrix<float>(2, 3).view(), Matrix<float>(2, 2).view()); }, "(2, 3)", "(2, 2)"));
}

TEST(CoupledHessianError, IsTheTraceInPlainLoops) {
  for (const std::size_t rows : {1u, 37u, 130u}) {
    const Matrix<float> h = random_hessian(21, 70, rows), h_out = random_hessian(rows, 2 * rows, 5),
                        delta = random_weights(rows, 21, 2);
    double expected = 0.0, magnitude = 0.0;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t q = 0; q < rows; ++q)
        for (std::size_t i = 0; i < 21; ++i)
          for (std::size_t j = 0; j < 21; ++j) {
            const double term = static_cast<double>(h_out(r, q)) * static_cast<double>(delta(r, i)) *
                                static_cast<double>(h(i, j)) * static_cast<double>(delta(q, j));
            expected += term;
            magnitude += std::abs(term);
          }
    // Sums of up to 130 products in float, of terms that cancel: 2^-24 of what they amount to, times the root of their
    // number, twice.
    EXPECT_TRUE(near(coupled_hessian_error(delta.view(), h.view(), h_out.view()), expected, {.abs = 1e-6 * magnitude}));
    Matrix<float> alone(rows, rows);
    for (std::size_t r = 0; r < rows; ++r) alone(r, r) = 1.0f;
    EXPECT_TRUE(near(coupled_hessian_error(delta.view(), h.view(), alone.view()), hessian_error(delta.view(), h.view()),
                     {.rel = 1e-6}));
  }
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [] {
        (void)coupled_hessian_error(Matrix<float>(2, 3).view(), Matrix<float>(3, 3).view(), Matrix<float>(3, 3).view());
      },
      "(2, 3)", "outputs (3, 3)"));
}

}  // namespace
}  // namespace nibble::quant
