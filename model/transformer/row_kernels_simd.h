#pragma once

#include <cstddef>

#include "model/transformer/row_kernels.h"

// The kernels of row_kernels.h over a vector type V of one instruction set. V lives in an anonymous namespace of the
// file that includes this, so every function below has internal linkage and cannot leak into code for other processors.
//
// V offers   F, Sum                   a vector of kWidth floats; a wide accumulator of such vectors in double
//            load, store (p, count)   the first min(count, kWidth) floats; missing ones load as 0
//            set(x), add, sub, mul, div, min, max, fma(a, b, c) = a b + c, fnma(a, b, c) = c - a b
//            round(x)                 to the nearest integer
//            scale(p, n)              p 2^n for integral n in [-126, 128], 0 below
//            keep(x, count)           x with everything after `count` values set to 0
//            accumulate(sum, x), total(sum), largest(x)
namespace nibble::model::row_kernels {

// exp(x) = 2^n exp(r) with |r| <= ln 2 / 2: 1 + r + r^2 q(r), where q interpolates (exp(r) - 1 - r) / r^2 at the five
// Chebyshev nodes (relative error of the approximation 1e-8, an eighth of an ulp; with rounding below 2 ulp).
template <class V>
typename V::F exp(typename V::F x) {
  using F = typename V::F;
  const F clamped = V::min(V::max(x, V::set(-90.0f)), V::set(88.7f));
  const F n = V::round(V::mul(clamped, V::set(0x1.715476p+0f)));
  F r = V::fnma(n, V::set(0x1.62e4p-1f), clamped);  // ln 2 in two parts: n times the first is exact
  r = V::fnma(n, V::set(0x1.7f7d1cp-20f), r);
  F q = V::set(0.0013926175888627768f);
  q = V::fma(q, r, V::set(0.008363173343241215f));
  q = V::fma(q, r, V::set(0.041666556149721146f));
  q = V::fma(q, r, V::set(0.16666577756404877f));
  q = V::fma(q, r, V::set(0.5f));
  return V::scale(V::add(V::set(1.0f), V::fma(V::mul(r, r), q, r)), n);
}

// 1 / (1 + exp(-x)).
template <class V>
typename V::F sigmoid(typename V::F x) {
  const auto one = V::set(1.0f);
  return V::div(one, V::add(one, exp<V>(V::sub(V::set(0.0f), x))));
}

// 2 u of gelu_new: 2 sqrt(2/pi) x (1 + 0.044715 x^2), given x and x^2.
template <class V>
typename V::F gelu_argument(typename V::F x, typename V::F square) {
  return V::mul(V::mul(V::set(1.5957691216057308f), x), V::fma(V::set(0.044715f), square, V::set(1.0f)));
}

template <class V>
struct Kernels {
  using F = typename V::F;
  using Sum = typename V::Sum;
  static constexpr std::size_t kWidth = V::kWidth;

  static float max(const float* x, std::size_t n) {
    F largest = V::set(-__builtin_inff());
    std::size_t i = 0;
    for (; i + kWidth <= n; i += kWidth) largest = V::max(V::load(x + i, kWidth), largest);
    float result = V::largest(largest);
    for (; i < n; ++i) result = x[i] > result ? x[i] : result;
    return result;
  }

  static double exp_row(const float* x, float* y, std::size_t n, float shift) {
    Sum sum{};
    const F offset = V::set(shift);
    for (std::size_t i = 0; i < n; i += kWidth) {
      const F value = V::keep(exp<V>(V::sub(V::load(x + i, n - i), offset)), n - i);
      V::store(y + i, n - i, value);
      V::accumulate(sum, value);
    }
    return V::total(sum);
  }

  static double sum_exp(const float* x, std::size_t n, float shift) {
    Sum sum{};
    const F offset = V::set(shift);
    for (std::size_t i = 0; i < n; i += kWidth)
      V::accumulate(sum, V::keep(exp<V>(V::sub(V::load(x + i, n - i), offset)), n - i));
    return V::total(sum);
  }

  static void gelu(const float* x, float* y, std::size_t n) {
    for (std::size_t i = 0; i < n; i += kWidth) {
      const F value = V::load(x + i, n - i);
      V::store(y + i, n - i, V::mul(value, sigmoid<V>(gelu_argument<V>(value, V::mul(value, value)))));
    }
  }

  static void gelu_backward(const float* x, const float* dy, float* dx, std::size_t n) {
    const F one = V::set(1.0f);
    for (std::size_t i = 0; i < n; i += kWidth) {
      const F value = V::load(x + i, n - i), square = V::mul(value, value);
      const F s = sigmoid<V>(gelu_argument<V>(value, square));
      // 2 x u' = 2 sqrt(2/pi) x (1 + 3 * 0.044715 x^2)
      const F slope = V::mul(V::mul(V::set(1.5957691216057308f), value), V::fma(V::set(0.134145f), square, one));
      const F derivative = V::mul(s, V::fma(slope, V::sub(one, s), one));
      V::store(dx + i, n - i, V::mul(V::load(dy + i, n - i), derivative));
    }
  }

  static void silu_mul(const float* gate, const float* up, float* y, std::size_t n) {
    for (std::size_t i = 0; i < n; i += kWidth) {
      const F g = V::load(gate + i, n - i);
      V::store(y + i, n - i, V::mul(V::mul(g, sigmoid<V>(g)), V::load(up + i, n - i)));
    }
  }

  static void silu_mul_backward(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                                std::size_t n) {
    const F one = V::set(1.0f);
    for (std::size_t i = 0; i < n; i += kWidth) {
      const F g = V::load(gate + i, n - i), u = V::load(up + i, n - i), d = V::load(dy + i, n - i);
      const F s = sigmoid<V>(g);
      V::store(dgate + i, n - i, V::mul(V::mul(d, u), V::mul(s, V::fma(g, V::sub(one, s), one))));
      V::store(dup + i, n - i, V::mul(d, V::mul(g, s)));
    }
  }

  static constexpr Table kTable{max, exp_row, sum_exp, gelu, gelu_backward, silu_mul, silu_mul_backward};
};

}  // namespace nibble::model::row_kernels
