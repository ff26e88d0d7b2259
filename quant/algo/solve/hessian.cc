#include "quant/algo/solve/hessian.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "core/matrix/inverse_factor.h"
#include "core/matrix/rounded.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kHessianRowTile = 128;
constexpr double kFirstDamping = 1e-6, kLargestDamping = 1e4;

template <class T>
void require_valid(MatrixView<const T> h, const FactorOptions& options) {
  NIBBLE_REQUIRE(!h.empty() && h.rows() == h.cols(), InvalidArgument,
                 "factor_hessian: expected a square matrix, got ({}, {})", h.rows(), h.cols());
  NIBBLE_REQUIRE(options.damping >= 0.0 && options.damping <= kLargestDamping, InvalidArgument,
                 "factor_hessian: expected a damping in [0, {}], got {}", kLargestDamping, options.damping);
  for (std::size_t i = 0; i < h.rows(); ++i) {
    const auto row = h.row(i);
    const auto bad = std::find_if(row.begin(), row.end(), [](T value) { return !std::isfinite(value); });
    NIBBLE_REQUIRE(bad == row.end(), NumericalError, "factor_hessian: the Hessian at row {}, column {} is {}", i,
                   bad - row.begin(), *bad);
  }
}

/// H in reverse order with the diagonal raised; silent inputs get the mean diagonal and no company.
template <class F, class T>
Matrix<F> reversed_and_damped(MatrixView<const T> h, const HessianFactor& factor, double mean) {
  const std::size_t n = h.rows();
  Matrix<F> a(n, n);
  parallel_for_tiles(n, kHessianRowTile, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const std::size_t input = factor.order[n - 1 - r];
      for (std::size_t c = 0; c < r && factor.silent[input] == 0; ++c) {
        const std::size_t other = factor.order[n - 1 - c];
        a(r, c) = factor.silent[other] == 0 ? static_cast<F>(h(input, other)) : F(0);
      }
      const double diagonal = factor.silent[input] == 0 ? static_cast<double>(h(input, input)) : mean;
      a(r, r) = static_cast<F>(diagonal + factor.damping[input]);
    }
  });
  return a;
}

template <class F, class T>
bool try_factor(MatrixView<const T> h, double mean, HessianFactor& factor) {
  Matrix<F> a = reversed_and_damped<F>(h, factor, mean);
  if (!invert_cholesky_factor(a)) return false;
  std::reverse(a.values().begin(), a.values().end());  // reverses rows and columns: lower becomes upper
  if constexpr (std::is_same_v<F, float>) {
    factor.upper = std::move(a);
  } else {
    factor.upper = rounded(a);
  }
  return true;
}

}  // namespace

template <class T>
HessianFactor factor_hessian(MatrixView<const T> h, const FactorOptions& options) {
  require_valid(h, options);
  const std::size_t n = h.rows();
  HessianFactor factor;
  factor.silent.resize(n);
  factor.damping.resize(n);
  double sum = 0.0;
  for (std::size_t j = 0; j < n; ++j) {
    factor.silent[j] = h(j, j) > T(0) ? 0 : 1;
    factor.silent_inputs += factor.silent[j];
    if (factor.silent[j] == 0) sum += static_cast<double>(h(j, j));
  }
  const double mean = factor.silent_inputs < n ? sum / static_cast<double>(n - factor.silent_inputs) : 1.0;

  factor.order.resize(n);
  std::iota(factor.order.begin(), factor.order.end(), std::size_t{0});
  if (options.act_order) {
    std::stable_sort(factor.order.begin(), factor.order.end(),
                     [&](std::size_t a, std::size_t b) { return std::max(h(a, a), T(0)) > std::max(h(b, b), T(0)); });
  }
  for (double share = options.damping; share <= kLargestDamping; share = share > 0.0 ? 10.0 * share : kFirstDamping) {
    factor.damping_share = share;
    for (std::size_t j = 0; j < n; ++j)
      factor.damping[j] =
          share * (factor.silent[j] == 0 && options.unit == DampingUnit::kOwn ? static_cast<double>(h(j, j)) : mean);
    if (options.in_double ? try_factor<double>(h, mean, factor) : try_factor<float>(h, mean, factor)) return factor;
  }
  throw NumericalError(fmt::format(
      "factor_hessian: the Hessian ({}, {}) is not positive definite, not even with {} of its diagonal added", n, n,
      factor.damping_share));
}

template HessianFactor factor_hessian<float>(MatrixView<const float>, const FactorOptions&);
template HessianFactor factor_hessian<double>(MatrixView<const double>, const FactorOptions&);

namespace {

// Σ of the products of Δ H and what other_factor(begin, end) gives for its rows [begin, end).
template <class Rows>
double sum_of_products(MatrixView<const float> delta, MatrixView<const float> h, const Rows& other_factor) {
  NIBBLE_REQUIRE(h.rows() == h.cols() && h.rows() == delta.cols(), InvalidArgument,
                 "hessian_error: errors ({}, {}) and Hessian ({}, {}) do not fit", delta.rows(), delta.cols(), h.rows(),
                 h.cols());
  std::vector<double> sums((delta.rows() + kHessianRowTile - 1) / kHessianRowTile);
  parallel_for_tiles(delta.rows(), kHessianRowTile, [&](std::size_t begin, std::size_t end) {
    const auto rows = delta.rows_slice(begin, end - begin);
    Matrix<float> product(rows.rows(), rows.cols());
    gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, rows, h, 0.0f, product);
    const auto& other = other_factor(begin, end);
    double& sum = sums[begin / kHessianRowTile];
    for (std::size_t r = 0; r < rows.rows(); ++r)
      for (std::size_t c = 0; c < rows.cols(); ++c)
        sum += static_cast<double>(other(r, c)) * static_cast<double>(product(r, c));
  });
  const double error = std::accumulate(sums.begin(), sums.end(), 0.0);
  return error < 0.0 ? 0.0 : error;  // NaN stays
}

}  // namespace

double hessian_error(MatrixView<const float> delta, MatrixView<const float> h) {
  return sum_of_products(delta, h,
                         [&](std::size_t begin, std::size_t end) { return delta.rows_slice(begin, end - begin); });
}

double coupled_hessian_error(MatrixView<const float> delta, MatrixView<const float> h, MatrixView<const float> h_out) {
  NIBBLE_REQUIRE(h_out.rows() == h_out.cols() && h_out.rows() == delta.rows(), InvalidArgument,
                 "hessian_error: errors ({}, {}) and Hessian of outputs ({}, {}) do not fit", delta.rows(),
                 delta.cols(), h_out.rows(), h_out.cols());
  return sum_of_products(delta, h, [&](std::size_t begin, std::size_t end) {
    Matrix<float> coupled(end - begin, delta.cols());
    gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, h_out.rows_slice(begin, end - begin), delta, 0.0f, coupled);
    return coupled;
  });
}

}  // namespace nibble::quant
