#include "core/matrix/gemm.h"

#include <complex>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble {
namespace {

// Small integers: every partial sum is exact in float, so any order of summation gives the same bits.
template <class T>
Matrix<T> small_integers(std::size_t rows, std::size_t cols, Random& random) {
  Matrix<T> m(rows, cols);
  for (T& value : m.values()) value = T(static_cast<float>(random.below(17)) - 8.0f);
  return m;
}

template <class T>
Matrix<T> reference(Transpose ta, Transpose tb, T alpha, const Matrix<T>& a, const Matrix<T>& b, T beta, Matrix<T> c) {
  const std::size_t k = ta == Transpose::kYes ? a.rows() : a.cols();
  for (std::size_t i = 0; i < c.rows(); ++i) {
    for (std::size_t j = 0; j < c.cols(); ++j) {
      T sum(0);
      for (std::size_t l = 0; l < k; ++l)
        sum += (ta == Transpose::kYes ? a(l, i) : a(i, l)) * (tb == Transpose::kYes ? b(j, l) : b(l, j));
      c(i, j) = alpha * sum + (beta == T(0) ? T(0) : beta * c(i, j));
    }
  }
  return c;
}

template <class T>
void expect_exact_products() {
  Random random(1);
  for (const std::size_t m : {1u, 5u, 64u, 300u}) {
    for (const std::size_t n : {1u, 7u, 129u, 513u}) {
      for (const std::size_t k : {1u, 3u, 100u}) {
        for (const Transpose ta : {Transpose::kNo, Transpose::kYes}) {
          for (const Transpose tb : {Transpose::kNo, Transpose::kYes}) {
            const auto a = ta == Transpose::kYes ? small_integers<T>(k, m, random) : small_integers<T>(m, k, random);
            const auto b = tb == Transpose::kYes ? small_integers<T>(n, k, random) : small_integers<T>(k, n, random);
            const auto c = small_integers<T>(m, n, random);
            auto actual = c;
            parallel_gemm<T>(ta, tb, T(2), a, b, T(-1), actual);
            const auto expected = reference<T>(ta, tb, T(2), a, b, T(-1), c);
            ASSERT_TRUE(std::equal(actual.values().begin(), actual.values().end(), expected.values().begin()))
                << m << " " << n << " " << k;
          }
        }
      }
    }
  }
}

TEST(Gemm, IsExactOnSmallIntegersInFloat) { expect_exact_products<float>(); }
TEST(Gemm, IsExactOnSmallIntegersInDouble) { expect_exact_products<double>(); }
TEST(Gemm, IsExactOnSmallIntegersInComplex) { expect_exact_products<std::complex<double>>(); }

TEST(Gemm, BetaZeroOverwritesNan) {
  const Matrix<float> a(2, 3), b(3, 2);
  Matrix<float> c(2, 2);
  for (float& value : c.values()) value = std::numeric_limits<float>::quiet_NaN();
  gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, a, b, 0.0f, c);
  EXPECT_TRUE(test::all_near(c.values(), std::vector<float>(4, 0.0f), {}));
}

TEST(Gemm, WritesOnlyInsideAStridedView) {
  Random random(2);
  const auto a = small_integers<float>(4, 8, random), b = small_integers<float>(8, 5, random);
  Matrix<float> wide(4, 9);
  for (float& value : wide.values()) value = 99.0f;
  gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, a, b, 0.0f, wide.view().block(0, 2, 4, 5));
  const auto expected = reference<float>(Transpose::kNo, Transpose::kNo, 1.0f, a, b, 0.0f, Matrix<float>(4, 5));
  for (std::size_t r = 0; r < 4; ++r) {
    for (std::size_t c = 0; c < 9; ++c) ASSERT_EQ(wide(r, c), c >= 2 && c < 7 ? expected(r, c - 2) : 99.0f);
  }
}

TEST(Gemm, AnEmptySumGivesZeros) {
  const Matrix<float> a(2, 0), b(0, 3);
  Matrix<float> c(2, 3);
  for (float& value : c.values()) value = 5.0f;
  gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, a, b, 0.0f, c);
  EXPECT_TRUE(test::all_near(c.values(), std::vector<float>(6, 0.0f), {}));
}

TEST(Gemm, NamesShapesThatDoNotFit) {
  const Matrix<float> a(2, 3), b(4, 2);
  Matrix<float> c(2, 2);
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, a, b, 0.0f, c); }, "(2, 3)", "(4, 2)"));
}

#if defined(__SANITIZE_ADDRESS__)
// The products themselves are not instrumented.
TEST(GemmDeathTest, OperandsBeyondTheirMemoryAreReported) {
  const std::vector<double> short_of_one(5, 1.0), whole(6, 1.0);
  std::vector<double> sums(4);
  const MatrixView<const double> bad(short_of_one.data(), 2, 3), good(whole.data(), 2, 3);
  const MatrixView<double> c(sums.data(), 2, 2);
  gemm<double>(Transpose::kNo, Transpose::kYes, 1.0, good, good, 0.0, c);
  EXPECT_DEATH(gemm<double>(Transpose::kNo, Transpose::kYes, 1.0, bad, good, 0.0, c), "heap-buffer-overflow");
  EXPECT_DEATH(gemm<double>(Transpose::kNo, Transpose::kYes, 1.0, good, bad, 0.0, c), "heap-buffer-overflow");
  EXPECT_DEATH(
      gemm<double>(Transpose::kNo, Transpose::kYes, 1.0, good, good, 0.0, MatrixView<double>(sums.data() + 1, 2, 2)),
      "heap-buffer-overflow");
}
#endif

TEST(ParallelGemm, GivesTheSameBitsWithAnyNumberOfThreads) {
  Random random(3);
  Matrix<float> a(700, 130), b(600, 130), one(700, 600), many(700, 600);
  for (float& value : a.values()) value = static_cast<float>(random.normal());
  for (float& value : b.values()) value = static_cast<float>(random.normal());
  set_thread_count(1);
  parallel_gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, a, b, 0.0f, one);
  set_thread_count(3);
  parallel_gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, a, b, 0.0f, many);
  set_thread_count(0);
  EXPECT_TRUE(test::same_bits(many.values(), one.values()));
}

TEST(GemmIdentity, NamesTheInstructionSetInForce) {
  EXPECT_NE(gemm_identity().find(isa_name(active_isa())), std::string::npos) << gemm_identity();
}

}  // namespace
}  // namespace nibble
