// Inputs that follow from the float model's, and guided Hessians that are carried along with them, beside plain loops
// in double.
#include "quant/job/network/map_inputs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "calib/stats/derived.h"
#include "core/random.h"
#include "quant/algo/solve/hessian.h"
#include "tests/support/compare.h"

namespace nibble::quant::map_inputs_test {
namespace {

constexpr std::size_t kIn = 6, kWindow = 5, kWindows = 40, kTokens = kWindow * kWindows;
// Sums of 200 products of up to 10 by 10 in float and a factor of them, whose diagonals are 1 to 10: 1e-4 is twenty
// times what was seen.
constexpr test::Bound kOfSums{.abs = 2e-4, .rel = 2e-4};

// (tokens, in) in the float model and behind quantized layers; what each token weighs.
struct Case {
  Matrix<float> then{kTokens, kIn}, now{kTokens, kIn};
  std::vector<double> weights;
};

// Inputs with means, which shrink and mix on their way; `noise` is what does not follow from them.
Case make_case(double noise, bool drifts = true) {
  Random random(11);
  Case made;
  for (std::size_t t = 0; t < kTokens; ++t) {
    for (std::size_t j = 0; j < kIn; ++j)
      made.then(t, j) = static_cast<float>(0.7 + random.normal() * (1.0 + 0.3 * static_cast<double>(j)));
    for (std::size_t j = 0; j < kIn; ++j) {
      const double mixed = 0.8 * static_cast<double>(made.then(t, j)) +
                           0.1 * static_cast<double>(made.then(t, (j + 1) % kIn)) + 0.4 + noise * random.normal();
      made.now(t, j) = drifts ? static_cast<float>(mixed) : made.then(t, j);
    }
    made.weights.push_back(std::exp(random.normal()));
  }
  return made;
}

std::vector<double> mean_of(const Matrix<float>& x, const std::vector<double>* weights = nullptr) {
  std::vector<double> mean(x.cols());
  double mass = 0.0;
  for (std::size_t t = 0; t < x.rows(); ++t) {
    const double weight = weights ? (*weights)[t] : 1.0;
    mass += weight;
    for (std::size_t j = 0; j < x.cols(); ++j) mean[j] += weight * static_cast<double>(x(t, j));
  }
  for (double& value : mean) value /= mass;
  return mean;
}

// E[weight · a bᵀ], about their (weighted) means or not.
Matrix<double> products(const Matrix<float>& a, const Matrix<float>& b, bool about_means,
                        const std::vector<double>* weights = nullptr) {
  std::vector<double> mean_a(kIn), mean_b(kIn);
  if (about_means) mean_a = mean_of(a, weights), mean_b = mean_of(b, weights);
  Matrix<double> sums(kIn, kIn);
  for (std::size_t t = 0; t < kTokens; ++t)
    for (std::size_t i = 0; i < kIn; ++i)
      for (std::size_t j = 0; j < kIn; ++j)
        sums(i, j) += (weights ? (*weights)[t] : 1.0) * (static_cast<double>(a(t, i)) - mean_a[i]) *
                      (static_cast<double>(b(t, j)) - mean_b[j]) / static_cast<double>(kTokens);
  return sums;
}

LayerDrift drift_of(const Case& given) {
  DriftSums sums(kWindow, 1.0, true);
  sums.add({given.then, {}}, {given.now, {}});
  return sums.take();
}

calib::LayerStats stats_of(const Matrix<float>& x) {
  calib::LayerSums sums("layer", 1, kIn, {.activations = true, .hessian = true});
  sums.tokens = kTokens;
  sums.samples = kWindows;
  for (std::size_t t = 0; t < kTokens; ++t)
    for (std::size_t i = 0; i < kIn; ++i) {
      const double value = static_cast<double>(x(t, i));
      sums.sum_x[i] += value;
      sums.sum_x2[i] += value * value;
      sums.sum_abs_x[i] += std::abs(value);
      for (std::size_t j = 0; j < kIn; ++j) sums.sum_xxt(i, j) += value * static_cast<double>(x(t, j));
    }
  return sums.rounded();
}

InputMap map_of(const Case& given) { return map_inputs(stats_of(given.now), drift_of(given)); }

Matrix<float> as_floats(const Matrix<double>& values) {
  Matrix<float> rounded(values.rows(), values.cols());
  for (std::size_t i = 0; i < values.size(); ++i) rounded.data()[i] = static_cast<float>(values.data()[i]);
  return rounded;
}

void expect_near(const Matrix<float>& made, const Matrix<double>& expected, test::Bound bound, const char* what) {
  for (std::size_t i = 0; i < kIn; ++i)
    for (std::size_t j = 0; j < kIn; ++j)
      EXPECT_TRUE(test::near(static_cast<double>(made(i, j)), expected(i, j), bound)) << what << " " << i << ", " << j;
}

// Of inputs in the float model, about their mean or not.
GuidedProducts guided_of(const Case& given, bool about_mean) {
  double mass = 0.0;
  for (const double weight : given.weights) mass += weight / static_cast<double>(kTokens);
  return {as_floats(products(given.then, given.then, about_mean, &given.weights)), mean_of(given.then, &given.weights),
          about_mean, mass};
}

// Of change (C + Λ) = P, Λ 10⁻⁴ of C's diagonal.
TEST(InputMap, ChangeSolvesTheNormalEquations) {
  const Case given = make_case(0.5);
  Matrix<float> off(kTokens, kIn);
  for (std::size_t i = 0; i < off.size(); ++i) off.data()[i] = given.then.data()[i] - given.now.data()[i];
  const Matrix<double> c = products(given.then, given.then, true), p = products(off, given.then, true);
  const InputMap map = map_of(given);
  Matrix<float> made(kIn, kIn);
  for (std::size_t i = 0; i < kIn; ++i)
    for (std::size_t j = 0; j < kIn; ++j) {
      double sum = 1e-4 * c(j, j) * static_cast<double>(map.change(i, j));
      for (std::size_t k = 0; k < kIn; ++k) sum += static_cast<double>(map.change(i, k)) * c(k, j);
      made(i, j) = static_cast<float>(sum);
    }
  expect_near(made, p, kOfSums, "P");
}

// Weighted alike, the products and the mean of all tokens are those of the inputs as they are now, however much does
// not follow, but for Λ: 10⁻⁴ of diagonals of 10 at most, times the change, of 0.5 at most, on either side.
TEST(InputMap, CarriesWhatAllTokensSayToWhatItIs) {
  for (const double noise : {0.0, 0.5, 3.0})
    for (const bool about_mean : {false, true}) {
      Case given = make_case(noise);
      given.weights.assign(kTokens, 2.0);
      GuidedProducts guided = guided_of(given, about_mean);
      carry(map_of(given), guided);
      expect_near(guided.products, products(given.now, given.now, about_mean, &given.weights), {.abs = 2e-3},
                  "products");
      const std::vector<double> now = mean_of(given.now);
      // Means of the float model are told by differences in float.
      for (std::size_t j = 0; j < kIn; ++j) EXPECT_TRUE(test::near(guided.mean[j], now[j], {.abs = 1e-5})) << j;
    }
}

// Where inputs follow from the float model's alone, weighted ones are carried too, but for Λ.
TEST(InputMap, CarriesWeightedProductsOfInputsThatFollow) {
  for (const bool about_mean : {false, true}) {
    const Case given = make_case(0.0);
    const GuidedProducts before = guided_of(given, about_mean);
    GuidedProducts after = before;
    carry(map_of(given), after);
    const Matrix<double> expected = products(given.now, given.now, about_mean, &given.weights);
    expect_near(after.products, expected, {.abs = 2e-3}, "products");
    EXPECT_FALSE(test::near(static_cast<double>(before.products(0, 0)), expected(0, 0), {.rel = 0.1}));
    for (std::size_t i = 0; i < kIn; ++i)
      for (std::size_t j = 0; j < kIn; ++j) EXPECT_EQ(after.products(i, j), after.products(j, i));
    const std::vector<double> now = mean_of(given.now, &given.weights);
    for (std::size_t j = 0; j < kIn; ++j) EXPECT_TRUE(test::near(after.mean[j], now[j], {.abs = 1e-3})) << j;
  }
}

TEST(InputMap, OfInputsThatHaveNotDriftedChangesNothing) {
  const Case given = make_case(0.0, false);
  for (const bool about_mean : {false, true}) {
    const GuidedProducts before = guided_of(given, about_mean);
    GuidedProducts after = before;
    carry(map_of(given), after);
    for (std::size_t i = 0; i < before.products.size(); ++i)
      EXPECT_EQ(after.products.data()[i], before.products.data()[i]);
    EXPECT_EQ(after.mean, before.mean);
  }
}

// An input that is always 0 in one network or both has nothing to say, and makes nothing of the others.
TEST(InputMap, TakesInputsThatAreAlwaysZero) {
  Case given = make_case(0.3);
  for (std::size_t t = 0; t < kTokens; ++t) {
    given.then(t, 1) = given.now(t, 1) = 0.0f;
    given.then(t, 4) = 0.0f;
    given.now(t, 5) = 0.0f;
    given.weights[t] = 1.0;
  }
  for (const bool about_mean : {false, true}) {
    GuidedProducts guided = guided_of(given, about_mean);
    carry(map_of(given), guided);
    expect_near(guided.products, products(given.now, given.now, about_mean), {.abs = 1e-3}, "products");
  }
}

}  // namespace
}  // namespace nibble::quant::map_inputs_test
