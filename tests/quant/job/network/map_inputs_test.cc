// Inputs that follow from the float model's, and guided Hessians that are carried along with them, beside plain loops
// in double.
#include "quant/job/network/map_inputs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "calib/stats/derived.h"
#include "core/random.h"
#include "tests/support/compare.h"

namespace nibble::quant::map_inputs_test {
namespace {

constexpr std::size_t kIn = 6, kWindow = 5, kWindows = 40, kTokens = kWindow * kWindows;
// Sums of 200 products of up to 10 by 10 in float, and a factor of them: 200 · 100 · 2^-24 / 5 of sums divided by 200,
// ten times that for the factor.
constexpr test::Bound kOfSums{.abs = 1e-4, .rel = 1e-4};

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

InputMap map_of(const Case& given, double damping = 1e-3) {
  DriftSums sums(kWindow, 1.0, true);
  sums.add({given.then, {}}, {given.now, {}});
  Matrix<float> squares = sums.take_squares();
  return map_inputs(stats_of(given.now), sums.take(), std::move(squares), damping);
}

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

// x of A x = b, by elimination.
std::vector<double> solved(Matrix<double> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = a(i, k) / a(k, k);
      for (std::size_t j = k; j < n; ++j) a(i, j) -= factor * a(k, j);
      b[i] -= factor * b[k];
    }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a(k, j) * b[j];
    b[k] /= a(k, k);
  }
  return b;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Rows of P (C + Λ)⁻¹ less what chance would make of what they leave, and that.
TEST(InputMap, IsTheShrunkRegressionOfDriftOnInputs) {
  for (const double damping : {1e-3, 0.3})
    for (const double noise : {0.0, 0.5, 5.0}) {
      const Case given = make_case(noise);
      Matrix<float> off(kTokens, kIn);
      for (std::size_t i = 0; i < off.size(); ++i) off.data()[i] = given.then.data()[i] - given.now.data()[i];
      const Matrix<double> p = products(off, given.then, true), squares = products(off, off, true);
      Matrix<double> damped = products(given.then, given.then, true);
      for (std::size_t j = 0; j < kIn; ++j) damped(j, j) *= 1.0 + damping;
      Matrix<double> change(kIn, kIn);
      double least = 1.0;
      for (std::size_t i = 0; i < kIn; ++i) {
        std::vector<double> row(kIn);
        for (std::size_t j = 0; j < kIn; ++j) row[j] = p(i, j);
        const std::vector<double> solution = solved(damped, row);
        const double all = dot(row, solution), left = squares(i, i) - all;
        const double chance = left * static_cast<double>(kIn) / static_cast<double>(kTokens - kIn);
        const double kept = all > chance ? 1.0 - chance / all : 0.0;
        least = std::min(least, kept);
        for (std::size_t j = 0; j < kIn; ++j) change(i, j) = kept * solution[j];
      }
      if (noise == 0.0 && damping < 0.1) {
        EXPECT_GT(least, 0.999);
      }
      const bool mostly_chance = least < 0.5;
      EXPECT_EQ(mostly_chance, noise == 5.0);
      const InputMap map = map_of(given, damping);
      expect_near(map.change, change, kOfSums, "change");
      const std::vector<double> then = mean_of(given.then), now = mean_of(given.now);
      Matrix<double> rest(kIn, kIn);
      for (std::size_t t = 0; t < kTokens; ++t) {
        std::vector<double> left(kIn);
        for (std::size_t i = 0; i < kIn; ++i) {
          left[i] = static_cast<double>(given.then(t, i)) - then[i] - static_cast<double>(given.now(t, i)) + now[i];
          for (std::size_t j = 0; j < kIn; ++j)
            left[i] -= change(i, j) * (static_cast<double>(given.then(t, j)) - then[j]);
        }
        for (std::size_t i = 0; i < kIn; ++i)
          for (std::size_t j = 0; j < kIn; ++j) rest(i, j) += left[i] * left[j] / static_cast<double>(kTokens);
      }
      expect_near(map.rest, rest, {.abs = 1e-3, .rel = 1e-4}, "rest");  // products of change, up to 1, by C, up to 10
    }
}

// By the formula, in double.
void expect_carried(const InputMap& map, const GuidedProducts& before, const GuidedProducts& after) {
  std::vector<double> mean = map.now;
  for (std::size_t i = 0; i < kIn; ++i)
    for (std::size_t j = 0; j < kIn && map.constant[i] == 0; ++j)
      mean[i] += ((i == j ? 1.0 : 0.0) - static_cast<double>(map.change(i, j))) * (before.mean[j] - map.then[j]);
  for (std::size_t j = 0; j < kIn; ++j) EXPECT_TRUE(test::near(after.mean[j], mean[j], {.abs = 1e-12})) << j;
  Matrix<double> expected(kIn, kIn);
  for (std::size_t i = 0; i < kIn; ++i)
    for (std::size_t j = 0; j < kIn; ++j) {
      double& sum = expected(i, j);
      if (map.constant[i] == 0 && map.constant[j] == 0) {
        sum = before.weight * static_cast<double>(map.rest(i, j));
        for (std::size_t k = 0; k < kIn; ++k)
          for (std::size_t l = 0; l < kIn; ++l) {
            const double left = (i == k ? 1.0 : 0.0) - static_cast<double>(map.change(i, k)),
                         right = (j == l ? 1.0 : 0.0) - static_cast<double>(map.change(j, l)),
                         about = before.about_mean ? 0.0 : before.weight * before.mean[k] * before.mean[l];
            sum += left * (static_cast<double>(before.products(k, l)) - about) * right;
          }
      }
      if (!before.about_mean) sum += before.weight * mean[i] * mean[j];
    }
  expect_near(after.products, expected, kOfSums, "carried");
  for (std::size_t i = 0; i < kIn; ++i)
    for (std::size_t j = 0; j < kIn; ++j) EXPECT_EQ(after.products(i, j), after.products(j, i));
}

// Weighted alike, the products and the mean of all tokens are those of the inputs as they are now, but for Λ, a
// thousandth of products of 10 times a change of 0.3, on either side.
TEST(InputMap, CarriesWhatAllTokensSayToWhatItIs) {
  for (const bool about_mean : {false, true}) {
    Case given = make_case(0.0);
    given.weights.assign(kTokens, 2.0);
    GuidedProducts guided = guided_of(given, about_mean);
    carry(map_of(given), guided);
    expect_near(guided.products, products(given.now, given.now, about_mean, &given.weights), {.abs = 0.012},
                "products");
    const std::vector<double> now = mean_of(given.now);
    // Means of the float model are told by differences in float.
    for (std::size_t j = 0; j < kIn; ++j) EXPECT_TRUE(test::near(guided.mean[j], now[j], {.abs = 1e-5})) << j;
  }
}

TEST(InputMap, CarriesByItsFormula) {
  for (const double noise : {0.0, 0.5, 5.0})
    for (const bool about_mean : {false, true}) {
      const Case given = make_case(noise);
      const GuidedProducts before = guided_of(given, about_mean);
      GuidedProducts after = before;
      const InputMap map = map_of(given);
      carry(map, after);
      expect_carried(map, before, after);
    }
}

// Where inputs follow from the float model's alone, weighted ones are carried too, but for Λ, a thousandth.
TEST(InputMap, CarriesWeightedProductsOfInputsThatFollow) {
  for (const bool about_mean : {false, true}) {
    const Case given = make_case(0.0);
    const GuidedProducts before = guided_of(given, about_mean);
    GuidedProducts after = before;
    carry(map_of(given), after);
    const Matrix<double> expected = products(given.now, given.now, about_mean, &given.weights);
    expect_near(after.products, expected, {.abs = 2e-3, .rel = 2e-3}, "products");
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

// An input that is the same for all tokens foretells nothing, and one that has become so varies with nothing: rows of
// 0, which solvers know, where it is always 0.
TEST(InputMap, TakesInputsThatAreConstant) {
  for (const float value : {0.0f, 0.7f})
    for (const bool about_mean : {false, true}) {
      Case given = make_case(0.3);
      for (std::size_t t = 0; t < kTokens; ++t) {
        given.then(t, 1) = given.now(t, 1) = value;
        given.then(t, 4) = 2.0f * value;
        given.now(t, 5) = 3.0f * value;
      }
      const InputMap map = map_of(given);
      EXPECT_EQ(map.constant, (std::vector<std::uint8_t>{0, 1, 0, 0, 0, 1}));
      for (std::size_t i = 0; i < kIn; ++i)
        for (const std::size_t constant : {std::size_t{1}, std::size_t{4}}) EXPECT_EQ(map.change(i, constant), 0.0f);
      const GuidedProducts before = guided_of(given, about_mean);
      GuidedProducts after = before;
      carry(map, after);
      expect_carried(map, before, after);
      if (!about_mean && value != 0.0f) continue;
      for (const std::size_t silent : {std::size_t{1}, std::size_t{5}})
        for (std::size_t j = 0; j < kIn; ++j) EXPECT_EQ(after.products(silent, j), 0.0f) << silent << ", " << j;
    }
}

// Which has weights of 0 where no gradient came.
TEST(InputMap, LeavesAGuideWithoutWeights) {
  const Case given = make_case(0.3);
  GuidedProducts guided{Matrix<float>(kIn, kIn), std::vector<double>(kIn), true, 0.0};
  carry(map_of(given), guided);
  for (const float value : guided.products.values()) EXPECT_EQ(value, 0.0f);
  for (const double value : guided.mean) EXPECT_EQ(value, 0.0);
}

}  // namespace
}  // namespace nibble::quant::map_inputs_test
