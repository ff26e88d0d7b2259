#include "quant/tuning/distillation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

std::vector<double> softmax(const std::vector<float>& logits) {
  double sum = 0.0;
  std::vector<double> p;
  for (const float x : logits) p.push_back(std::exp(static_cast<double>(x))), sum += p.back();
  for (double& x : p) x /= sum;
  return p;
}

std::vector<float> random_logits(Random& random, std::size_t n) {
  std::vector<float> logits(n);
  for (float& x : logits) x = static_cast<float>(2.0 * random.normal());
  return logits;
}

TEST(Distillation, IsTheDivergenceAndItsGradient) {
  Random random(11);
  for (const std::size_t n : {1u, 2u, 7u, 200u}) {
    const auto student = random_logits(random, n), teacher = random_logits(random, n);
    const auto q = softmax(student), p = softmax(teacher);
    double expected = 0.0;
    for (std::size_t k = 0; k < n; ++k) expected += p[k] * std::log(p[k] / q[k]);
    auto gradient = student, scratch = teacher;
    const double divergence = distil_row(gradient, scratch, 0.25f);
    // Probabilities are floats of some ulp; logits up to 10 lose 2^-21 when subtracted.
    EXPECT_TRUE(test::near(divergence, expected, {.abs = 2e-6, .rel = 2e-6})) << n;
    for (std::size_t k = 0; k < n; ++k)
      EXPECT_TRUE(test::near(static_cast<double>(gradient[k]), 0.25 * (q[k] - p[k]), {.abs = 1e-6})) << n << " " << k;
  }
}

TEST(Distillation, IsZeroForEqualLogitsAndExactForSmallDifferences) {
  Random random(12);
  const auto teacher = random_logits(random, 500);
  auto same = teacher, scratch = teacher;
  EXPECT_TRUE(test::near(distil_row(same, scratch, 1.0f), 0.0, {.abs = 1e-15}));
  // Logits that differ by d = ±2^-10 in turn: KL = ½ Var_p(d) up to third order, a millionth of a nat.
  auto student = teacher;
  for (std::size_t k = 0; k < student.size(); ++k) student[k] += k % 2 == 0 ? 0x1p-10f : -0x1p-10f;
  const auto p = softmax(teacher), q = softmax(student);
  double expected = 0.0;
  for (std::size_t k = 0; k < p.size(); ++k) expected += p[k] * std::log(p[k] / q[k]);
  scratch = teacher;
  // exp() in float shifts each ln Z by up to 1e-7 of itself, common to both for the most part.
  EXPECT_TRUE(test::near(distil_row(student, scratch, 1.0f), expected, {.abs = 1e-7}));
}

TEST(NextToken, IsTheLossAndItsGradient) {
  Random random(13);
  const auto logits = random_logits(random, 50);
  const auto q = softmax(logits);
  auto gradient = logits;
  EXPECT_TRUE(test::near(next_token_row(gradient, 3, 2.0f), -std::log(q[3]), {.rel = 2e-6}));
  for (std::size_t k = 0; k < q.size(); ++k)
    EXPECT_TRUE(test::near(static_cast<double>(gradient[k]), 2.0 * (q[k] - (k == 3 ? 1.0 : 0.0)), {.abs = 1e-6}));
}

TEST(Distillation, RefusesWhatDoesNotFit) {
  std::vector<float> three(3), two(2), none;
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { distil_row(three, two, 1.0f); }, "3 logits against 2"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { distil_row(none, none, 1.0f); }, "0 logits"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { next_token_row(two, 2, 1.0f); }, "token 2"));
}

}  // namespace
}  // namespace nibble::quant
