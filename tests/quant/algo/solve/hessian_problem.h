#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/matrix/matrix_view.h"
#include "core/random.h"

// Weights and Hessians for tests of error feedback.
namespace nibble::quant::test {

inline Matrix<float> random_weights(std::size_t rows, std::size_t cols, std::uint64_t seed, double size = 0.05) {
  Random random(seed);
  Matrix<float> w(rows, cols);
  for (float& value : w.values()) value = static_cast<float>(size * random.normal());
  return w;
}

/// XᵀX / N of N = `samples` inputs that share a common part and differ in size, rounded to float. Positive definite
/// with room to spare when samples is well above n.
inline Matrix<float> random_hessian(std::size_t n, std::size_t samples, std::uint64_t seed) {
  Random random(seed);
  Matrix<double> x(samples, n), sum(n, n);
  for (std::size_t t = 0; t < samples; ++t) {
    const double common = random.normal();
    for (std::size_t j = 0; j < n; ++j) x(t, j) = (0.3 + static_cast<double>(j % 7)) * (random.normal() + 0.8 * common);
  }
  for (std::size_t t = 0; t < samples; ++t)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) sum(i, j) += x(t, i) * x(t, j);
  Matrix<float> h(n, n);
  for (std::size_t i = 0; i < h.size(); ++i)
    h.data()[i] = static_cast<float>(sum.data()[i] / static_cast<double>(samples));
  return h;
}

inline Matrix<float> identity(std::size_t n) {
  Matrix<float> h(n, n);
  for (std::size_t i = 0; i < n; ++i) h(i, i) = 1.0f;
  return h;
}

/// tr(Δ H Δᵀ) in plain loops.
inline double plain_error(const Matrix<double>& delta, const Matrix<float>& h) {
  double sum = 0.0;
  for (std::size_t r = 0; r < delta.rows(); ++r)
    for (std::size_t i = 0; i < delta.cols(); ++i)
      for (std::size_t j = 0; j < delta.cols(); ++j) sum += delta(r, i) * static_cast<double>(h(i, j)) * delta(r, j);
  return sum;
}

}  // namespace nibble::quant::test
