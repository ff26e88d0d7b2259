#pragma once

#include <cmath>
#include <complex>
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

/// The normal distribution function, erfc(-x / sqrt 2) / 2. Float goes through double: rounding x / sqrt 2 to float
/// would cost x^2 / 2 ulp in the tail.
inline double normal_cdf(double x) { return 0.5 * std::erfc(-x * 0.70710678118654752440); }
inline float normal_cdf(float x) { return static_cast<float>(normal_cdf(static_cast<double>(x))); }
/// 1/2 + phi(z) sum z^(2n+1) / (1 3 5 ... (2n+1)): no terms of different signs near the real axis. An absolute error of
/// some 1e-16, not the relative one of the other two; beyond 9 what is left out is below 1e-18.
inline std::complex<double> normal_cdf(std::complex<double> z) {
  if (std::abs(z.real()) > 9.0) return z.real() > 0.0 ? 1.0 : 0.0;
  const std::complex<double> square = z * z;
  std::complex<double> term = z, sum = z;
  for (int n = 1; n < 400; ++n) {
    term *= square / (2.0 * n + 1.0);
    sum += term;
  }
  return 0.5 + 0.39894228040143267794 * std::exp(-0.5 * square) * sum;
}

// Activations f: the value, and the value with the slope f'. Branches go by the real part.

struct Silu {
  template <class T>
  static T value(T x) {
    return x * sigmoid(x);
  }
  template <class T>
  static void both(T x, T& value, T& slope) {
    using R = RealOf<T>;
    const T s = sigmoid(x);
    value = x * s;
    slope = s * (R(1) + x * (R(1) - s));
  }
};

struct GeluTanh {
  // x/2 (1 + tanh u) = x sigmoid(2 u): the same function without the cancellation of 1 + tanh for negative x.
  // This is 2 u = 2 sqrt(2/pi) x (1 + 0.044715 x^2).
  template <class T>
  static T argument(T x) {
    using R = RealOf<T>;
    return R(1.5957691216057307117597842397375) * x * (R(1) + R(0.044715) * x * x);
  }
  template <class T>
  static T value(T x) {
    return x * sigmoid(argument(x));
  }
  template <class T>
  static void both(T x, T& value, T& slope) {
    using R = RealOf<T>;
    const T s = sigmoid(argument(x));
    // 2 x u' = 2 sqrt(2/pi) x (1 + 3 * 0.044715 x^2)
    const T inner = R(1.5957691216057307117597842397375) * x * (R(1) + R(0.134145) * x * x);
    value = x * s;
    slope = s * (R(1) + inner * (R(1) - s));
  }
};

struct Gelu {
  template <class T>
  static T value(T x) {
    return x * normal_cdf(x);
  }
  template <class T>
  static void both(T x, T& value, T& slope) {
    using R = RealOf<T>;
    const T cdf = normal_cdf(x);
    value = x * cdf;
    slope = cdf + x * (R(0.39894228040143267794) * std::exp(R(-0.5) * x * x));
  }
};

struct Relu {
  template <class T>
  static T value(T x) {
    return real_part(x) <= RealOf<T>(0) ? T(0) : x;  // a NaN stays
  }
  template <class T>
  static void both(T x, T& result, T& slope) {
    result = value(x);
    slope = real_part(x) > RealOf<T>(0) ? T(1) : T(0);
  }
};

struct Relu2 {
  template <class T>
  static T value(T x) {
    const T r = Relu::value(x);
    return r * r;
  }
  template <class T>
  static void both(T x, T& value, T& slope) {
    const T r = Relu::value(x);
    value = r * r;
    slope = r + r;
  }
};

template <class F, class T>
void activation_row(const T* x, T* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = F::value(x[i]);
}

template <class F, class T>
void activation_backward_row(const T* x, const T* dy, T* dx, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    T value, slope;
    F::both(x[i], value, slope);
    dx[i] = dy[i] * slope;
  }
}

template <class F, class T>
void gated_row(const T* gate, const T* up, T* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = F::value(gate[i]) * up[i];
}

template <class F, class T>
void gated_backward_row(const T* gate, const T* up, const T* dy, T* dgate, T* dup, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const T u = up[i], d = dy[i];
    T value, slope;
    F::both(gate[i], value, slope);
    dgate[i] = d * u * slope;
    dup[i] = d * value;
  }
}

template <class T>
T clamped_above(T x, RealOf<T> limit) {
  return real_part(x) > limit ? T(limit) : x;
}
template <class T>
T clamped_both(T x, RealOf<T> limit) {
  return real_part(x) < -limit ? T(-limit) : clamped_above(x, limit);
}

template <class T>
void clamped_swiglu_row(const T* gate, const T* up, T* y, std::size_t n, RealOf<T> limit, RealOf<T> alpha) {
  for (std::size_t i = 0; i < n; ++i) {
    const T g = clamped_above(gate[i], limit);
    y[i] = g * sigmoid(alpha * g) * (clamped_both(up[i], limit) + RealOf<T>(1));
  }
}

template <class T>
void clamped_swiglu_backward_row(const T* gate, const T* up, const T* dy, T* dgate, T* dup, std::size_t n,
                                 RealOf<T> limit, RealOf<T> alpha) {
  using R = RealOf<T>;
  for (std::size_t i = 0; i < n; ++i) {
    const T g = clamped_above(gate[i], limit), u = clamped_both(up[i], limit), d = dy[i];
    const T s = sigmoid(alpha * g);
    const bool gate_clamped = real_part(gate[i]) > limit, up_clamped = std::abs(real_part(up[i])) > limit;
    dgate[i] = gate_clamped ? T(0) : d * (u + R(1)) * (s * (R(1) + alpha * g * (R(1) - s)));
    dup[i] = up_clamped ? T(0) : d * (g * s);
  }
}

}  // namespace nibble::model::generic
