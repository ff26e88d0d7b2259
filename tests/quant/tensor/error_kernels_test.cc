#include "quant/tensor/error_kernels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "core/machine/isa.h"
#include "core/random.h"
#include "tests/support/compare.h"

namespace nibble::quant {
namespace {

using error_kernels::Lanes;
using error_kernels::Squares;

struct Rows {
  std::vector<float> w, approximations;
};

Rows some_rows(std::size_t count) {
  Random random(count);
  Rows rows;
  for (std::size_t j = 0; j < count; ++j) {
    rows.w.push_back(static_cast<float>(random.normal()));
    rows.approximations.push_back(rows.w.back() + static_cast<float>(0.01 * random.normal()));
  }
  return rows;
}

TEST(Squares, AreThoseOfAPlainLoop) {
  for (const std::size_t count : {0u, 1u, 15u, 16u, 17u, 64u, 1000u, 4095u}) {
    const Rows rows = some_rows(count);
    double error = 0.0, norm = 0.0;
    for (std::size_t j = 0; j < count; ++j) {
      const double value = static_cast<double>(rows.w[j]);
      const double difference = value - static_cast<double>(rows.approximations[j]);
      error += difference * difference;
      norm += value * value;
    }
    const Squares squares = error_kernels::squares(rows.w.data(), rows.approximations.data(), count);
    // Sums of as many terms, none negative, in two orders: each within (count + 2) eps of the exact one.
    const double tolerance = 2.0 * (static_cast<double>(count) + 2.0) * std::numeric_limits<double>::epsilon();
    EXPECT_TRUE(test::near(squares.error, error, {.rel = tolerance})) << count;
    EXPECT_TRUE(test::near(squares.norm, norm, {.rel = tolerance})) << count;
  }
}

TEST(Squares, HaveTheSameBitsOnEveryProcessor) {
  const Rows rows = some_rows(640);
  const auto lanes_of = [&](error_kernels::AddSquares add) {
    Lanes lanes{};
    add(rows.w.data(), rows.approximations.data(), rows.w.size(), lanes);
    return lanes;
  };
  const Lanes scalar = lanes_of(error_kernels::add_squares_scalar);
  EXPECT_GT(scalar.error[3], 0.0);
  [[maybe_unused]] const auto expect_same = [&](error_kernels::AddSquares add) {
    const Lanes lanes = lanes_of(add);
    EXPECT_EQ(std::memcmp(&lanes, &scalar, sizeof lanes), 0);
  };
#if defined(__x86_64__)
  if (supports_isa(Isa::kAvx2)) expect_same(error_kernels::add_squares_avx2);
  if (supports_isa(Isa::kAvx512)) expect_same(error_kernels::add_squares_avx512);
#endif
}

}  // namespace
}  // namespace nibble::quant
