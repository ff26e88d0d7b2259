#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "model/transformer/scalar.h"

// What the row operations of row_ops.h compute, in any scalar: the scalar path of float, and all of double and complex.
namespace nibble::model::generic {

template <class T>
RealOf<T> max_real(const T* x, std::size_t n) {
  RealOf<T> largest = -std::numeric_limits<RealOf<T>>::infinity();
  for (std::size_t i = 0; i < n; ++i) largest = real_part(x[i]) > largest ? real_part(x[i]) : largest;
  return largest;
}

template <class T>
WideOf<T> exp_row(const T* x, T* y, std::size_t n, T shift) {
  WideOf<T> sum{};
  for (std::size_t i = 0; i < n; ++i) {
    y[i] = std::exp(x[i] - shift);
    sum += static_cast<WideOf<T>>(y[i]);
  }
  return sum;
}

template <class T>
WideOf<T> sum_exp(const T* x, std::size_t n, T shift) {
  WideOf<T> sum{};
  for (std::size_t i = 0; i < n; ++i) sum += static_cast<WideOf<T>>(std::exp(x[i] - shift));
  return sum;
}

template <class T>
T sigmoid(T x) {
  return RealOf<T>(1) / (RealOf<T>(1) + std::exp(-x));
}

// x/2 (1 + tanh u) = x sigmoid(2 u): the same function without the cancellation of 1 + tanh for negative x.
// This is 2 u = 2 sqrt(2/pi) x (1 + 0.044715 x^2).
template <class T>
T gelu_argument(T x) {
  using R = RealOf<T>;
  return R(1.5957691216057307117597842397375) * x * (R(1) + R(0.044715) * x * x);
}

template <class T>
void gelu_row(const T* x, T* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * sigmoid(gelu_argument(x[i]));
}

template <class T>
void gelu_backward_row(const T* x, const T* dy, T* dx, std::size_t n) {
  using R = RealOf<T>;
  for (std::size_t i = 0; i < n; ++i) {
    const T s = sigmoid(gelu_argument(x[i]));
    const T slope = R(1.5957691216057307117597842397375) * x[i] * (R(1) + R(0.134145) * x[i] * x[i]);
    dx[i] = dy[i] * (s * (R(1) + slope * (R(1) - s)));
  }
}

template <class T>
void silu_mul_row(const T* gate, const T* up, T* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

template <class T>
void silu_mul_backward_row(const T* gate, const T* up, const T* dy, T* dgate, T* dup, std::size_t n) {
  using R = RealOf<T>;
  for (std::size_t i = 0; i < n; ++i) {
    const T g = gate[i], u = up[i], d = dy[i], s = sigmoid(g);
    dgate[i] = d * u * (s * (R(1) + g * (R(1) - s)));
    dup[i] = d * (g * s);
  }
}

}  // namespace nibble::model::generic
