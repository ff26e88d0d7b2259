#include "quant/algo/palettes/outliers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/error.h"
#include "core/random.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

std::set<std::size_t> places(const Outliers& outliers, std::size_t cols) {
  std::set<std::size_t> result;
  for (std::size_t i = 0; i + 1 < outliers.rows.size(); ++i)
    for (auto at = outliers.rows[i]; at < outliers.rows[i + 1]; ++at)
      result.insert(i * cols + static_cast<std::size_t>(outliers.columns[static_cast<std::size_t>(at)]));
  return result;
}

TEST(Outliers, SensitivitiesThatAreNotFiniteAreRefused) {
  const Matrix<float> w(4, 8);
  Matrix<double> f(4, 8);
  f(2, 3) = std::nan("");
  EXPECT_TRUE(test::throws_with<NumericalError>([&] { (void)find_outliers(w, f, 0.2, 0.0); }, "index 19", "finite"));
}

TEST(Outliers, AreTheMostSensitiveAndThenOfTheRestTheLargest) {
  Random random(1);
  Matrix<float> w(20, 30);
  Matrix<double> f(20, 30);
  for (float& value : w.values()) value = static_cast<float>(random.normal());
  for (double& value : f.values()) value = random.uniform();
  const auto found = places(find_outliers(w, f, 0.02, 0.051), 30);  // 12 and 30.6 of 600
  EXPECT_EQ(found.size(), 42u);
  std::vector<std::size_t> by_sensitivity, by_size;
  for (std::size_t i = 0; i < 600; ++i) by_sensitivity.push_back(i);
  std::sort(by_sensitivity.begin(), by_sensitivity.end(),
            [&](std::size_t a, std::size_t b) { return f.data()[a] > f.data()[b]; });
  by_size.assign(by_sensitivity.begin() + 12, by_sensitivity.end());
  std::sort(by_size.begin(), by_size.end(),
            [&](std::size_t a, std::size_t b) { return std::abs(w.data()[a]) > std::abs(w.data()[b]); });
  std::set<std::size_t> expected(by_sensitivity.begin(), by_sensitivity.begin() + 12);
  expected.insert(by_size.begin(), by_size.begin() + 30);
  EXPECT_EQ(found, expected);
}

TEST(Outliers, OfEqualOnesAreTheFirst) {
  const Matrix<float> zeros(3, 5);
  EXPECT_EQ(places(find_outliers(zeros, {}, 0.0, 0.3), 5), (std::set<std::size_t>{0, 1, 2, 3}));
  EXPECT_TRUE(places(find_outliers(zeros, {}, 0.0, 0.05), 5).empty()) << "less than one weight";
}

TEST(Outliers, AreMaskedByZeros) {
  Matrix<float> w(2, 3);
  for (std::size_t i = 0; i < 6; ++i) w.data()[i] = static_cast<float>(i + 1);
  mask_outliers(find_outliers(w, {}, 0.0, 0.5), w);
  EXPECT_EQ((std::vector<float>(w.data(), w.data() + 6)), (std::vector<float>{1, 2, 3, 0, 0, 0}));
}

TEST(Outliers, ImpossibleSharesAndShapesAreRefused) {
  const Matrix<float> w(2, 3);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { (void)find_outliers(w, {}, 0.0, 1.0); }, "less than 1"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { (void)find_outliers(w, {}, 0.1, 0.0); }, "(2, 3)", "(0, 0)"));
}

}  // namespace
}  // namespace nibble::quant
