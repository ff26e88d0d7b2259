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
//            greater(a, b, yes, no)   yes where a > b, else no (so no where either is a NaN)
//            keep(x, count)           x with everything after `count` values set to 0
//            accumulate(sum, x), total(sum), largest(x)
namespace nibble::model::row_kernels {

// exp(x) = 2^n exp(r) with |r| <= ln 2 / 2: 1 + r + r^2 q(r), where q interpolates (exp(r) - 1 - r) / r^2 at the five
// Chebyshev nodes (relative error of the approximation 1e-8, an eighth of an ulp; with rounding below 2 ulp).
template <class V>
typename V::F exp(typename V::F x) {
  using F = typename V::F;
  const F clamped = V::min(V::max(x, V::set(-90.0f)), V::set(89.0f));  // 0 and infinity
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

template <class V>
struct Silu {
  using F = typename V::F;
  static F value(F x) { return V::mul(x, sigmoid<V>(x)); }
  static void both(F x, F& value, F& slope) {
    const F one = V::set(1.0f), s = sigmoid<V>(x);
    value = V::mul(x, s);
    slope = V::mul(s, V::fma(x, V::sub(one, s), one));
  }
};

template <class V>
struct GeluTanh {
  using F = typename V::F;
  // 2 u = 2 sqrt(2/pi) x (1 + 0.044715 x^2), given x and x^2.
  static F argument(F x, F square) {
    return V::mul(V::mul(V::set(1.5957691216057308f), x), V::fma(V::set(0.044715f), square, V::set(1.0f)));
  }
  static F value(F x) { return V::mul(x, sigmoid<V>(argument(x, V::mul(x, x)))); }
  static void both(F x, F& value, F& slope) {
    const F one = V::set(1.0f), square = V::mul(x, x), s = sigmoid<V>(argument(x, square));
    // 2 x u' = 2 sqrt(2/pi) x (1 + 3 * 0.044715 x^2)
    const F inner = V::mul(V::mul(V::set(1.5957691216057308f), x), V::fma(V::set(0.134145f), square, one));
    value = V::mul(x, s);
    slope = V::mul(s, V::fma(inner, V::sub(one, s), one));
  }
};

template <class V>
struct Gelu {
  using F = typename V::F;
  // The lower tail of the normal distribution, Phi(-t) = e R(t) for t = |x|, with `e` = exp(-t^2/2). R is smooth:
  // q P(q) with q = 1 / (1 + 0.24 t), where P interpolates R / q at the ten Chebyshev nodes of t in [0, 13.3] (relative
  // error 4e-9; with rounding below 3 ulp). The rounding of t^2 is made up for. Beyond 13.2 the tail is below 2^-126.
  static F tail(F x, F& e) {
    const F zero = V::set(0.0f), t = V::min(V::max(x, V::sub(zero, x)), V::set(14.0f));
    const F half = V::set(0.5f), square = V::mul(t, t), rest = V::sub(zero, V::fnma(t, t, square));
    const F power = exp<V>(V::sub(zero, V::mul(half, square)));
    e = V::fnma(V::mul(half, rest), power, power);
    const F one = V::set(1.0f), q = V::div(one, V::fma(V::set(0.24f), t, one));
    F p = V::set(0.0254291352f);
    p = V::fma(p, q, V::set(-0.124124154f));
    p = V::fma(p, q, V::set(0.204301283f));
    p = V::fma(p, q, V::set(-0.142728671f));
    p = V::fma(p, q, V::set(0.140184045f));
    p = V::fma(p, q, V::set(0.0288339648f));
    p = V::fma(p, q, V::set(0.0875245482f));
    p = V::fma(p, q, V::set(0.088986747f));
    p = V::fma(p, q, V::set(0.0958506688f));
    p = V::fma(p, q, V::set(0.0957424343f));
    return V::mul(e, V::mul(p, q));
  }
  static F cdf(F x, F& e) {
    const F below = tail(x, e);
    return V::greater(x, V::set(0.0f), V::sub(V::set(1.0f), below), below);
  }
  static F value(F x) {
    F e;
    return V::mul(x, cdf(x, e));
  }
  static void both(F x, F& value, F& slope) {
    F e;
    const F normal = cdf(x, e);
    value = V::mul(x, normal);
    slope = V::fma(V::mul(x, V::set(0.39894228040143268f)), e, normal);  // Phi(x) + x exp(-x^2/2) / sqrt(2 pi)
  }
};

template <class V>
struct Relu {
  using F = typename V::F;
  static F value(F x) { return V::max(x, V::set(0.0f)); }
  static void both(F x, F& result, F& slope) {
    const F zero = V::set(0.0f);
    result = value(x);
    slope = V::greater(x, zero, V::set(1.0f), zero);
  }
};

template <class V>
struct Relu2 {
  using F = typename V::F;
  static F value(F x) {
    const F r = Relu<V>::value(x);
    return V::mul(r, r);
  }
  static void both(F x, F& value, F& slope) {
    const F r = Relu<V>::value(x);
    value = V::mul(r, r);
    slope = V::add(r, r);
  }
};

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

  // Of one activation A: A::value(x), and A::both(x, value, slope).
  template <class A>
  static void plain(const float* x, float* y, std::size_t n) {
    for (std::size_t i = 0; i < n; i += kWidth) V::store(y + i, n - i, A::value(V::load(x + i, n - i)));
  }

  template <class A>
  static void plain_backward(const float* x, const float* dy, float* dx, std::size_t n) {
    for (std::size_t i = 0; i < n; i += kWidth) {
      F value, slope;
      A::both(V::load(x + i, n - i), value, slope);
      V::store(dx + i, n - i, V::mul(V::load(dy + i, n - i), slope));
    }
  }

  template <class A>
  static void gated(const float* gate, const float* up, float* y, std::size_t n) {
    for (std::size_t i = 0; i < n; i += kWidth)
      V::store(y + i, n - i, V::mul(A::value(V::load(gate + i, n - i)), V::load(up + i, n - i)));
  }

  template <class A>
  static void gated_backward(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                             std::size_t n) {
    for (std::size_t i = 0; i < n; i += kWidth) {
      const F u = V::load(up + i, n - i), d = V::load(dy + i, n - i);
      F value, slope;
      A::both(V::load(gate + i, n - i), value, slope);
      V::store(dgate + i, n - i, V::mul(V::mul(d, u), slope));
      V::store(dup + i, n - i, V::mul(d, value));
    }
  }

  static void clamped_swiglu(const float* gate, const float* up, float* y, std::size_t n, float limit, float alpha) {
    const F most = V::set(limit), least = V::set(-limit), one = V::set(1.0f);
    for (std::size_t i = 0; i < n; i += kWidth) {
      const F g = V::min(V::load(gate + i, n - i), most), u = V::max(V::min(V::load(up + i, n - i), most), least);
      const F s = sigmoid<V>(V::mul(V::set(alpha), g));
      V::store(y + i, n - i, V::mul(V::mul(g, s), V::add(u, one)));
    }
  }

  static void clamped_swiglu_backward(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                                      std::size_t n, float limit, float alpha) {
    const F most = V::set(limit), least = V::set(-limit), one = V::set(1.0f), zero = V::set(0.0f);
    for (std::size_t i = 0; i < n; i += kWidth) {
      const F gate_in = V::load(gate + i, n - i), up_in = V::load(up + i, n - i), d = V::load(dy + i, n - i);
      const F g = V::min(gate_in, most), u = V::max(V::min(up_in, most), least);
      const F argument = V::mul(V::set(alpha), g), s = sigmoid<V>(argument);
      const F slope = V::mul(s, V::fma(argument, V::sub(one, s), one));
      const F of_gate = V::mul(V::mul(d, V::add(u, one)), slope), of_up = V::mul(d, V::mul(g, s));
      V::store(dgate + i, n - i, V::greater(gate_in, most, zero, of_gate));
      V::store(dup + i, n - i, V::greater(up_in, most, zero, V::greater(least, up_in, zero, of_up)));
    }
  }

  template <class A>
  static constexpr ActivationKernels kActivation{plain<A>, plain_backward<A>, gated<A>, gated_backward<A>};

  static constexpr Table kTable{max,
                                exp_row,
                                sum_exp,
                                kActivation<Silu<V>>,
                                kActivation<GeluTanh<V>>,
                                kActivation<Gelu<V>>,
                                kActivation<Relu<V>>,
                                kActivation<Relu2<V>>,
                                clamped_swiglu,
                                clamped_swiglu_backward};
};

}  // namespace nibble::model::row_kernels
