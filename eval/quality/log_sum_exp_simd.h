#pragma once

#include <cstddef>

#include "eval/quality/log_sum_exp_kernels.h"

// Maximum and sum of exponentials over a vector type V of one instruction set. V lives in an anonymous namespace of the
// file that includes this, so everything here has internal linkage and cannot leak into code for other processors.
//
// V offers   F, D                     kWidth floats; half as many doubles
//            load(p, left)            up to kWidth floats; those past the end are -inf
//            max(a, b), largest(a)    of floats
//            low(f), high(f)          halves of the floats, as doubles
//            set(x), add, sub, mul, fma(a, b, c) = a b + c, fnma(a, b, c) = c - a b, total(d)
//            at_least(x, lowest)      the larger of both; a NaN stays
//            round(x)                 to the nearest integer
//            scale(p, n, x)           p 2^n; 0 where x is below kLowest
//            weighted(w, x, sum)      sum + w x; sum where w is 0, whatever x is
//            kLowest                  exp of this is as good as 0
namespace nibble::eval::kernels {

// exp(x) for x <= 0: x = n ln 2 + r, |r| <= ln(2) / 2; the Taylor series to r^11 is off by r^12 / 12! < 1e-14.
template <class V>
typename V::D exp(typename V::D x) {
  using D = typename V::D;
  const D clamped = V::at_least(x, V::set(V::kLowest));  // keeps -inf out of the reduction
  const D n = V::round(V::mul(clamped, V::set(0x1.71547652b82fep+0)));
  D r = V::fnma(n, V::set(0x1.62e42fefa38p-1), clamped);  // ln 2 in two parts: n times the first is exact
  r = V::fnma(n, V::set(0x1.ef35793c7673p-45), r);
  D p = V::set(1.0 / 39916800.0);
  p = V::fma(p, r, V::set(1.0 / 3628800.0));
  p = V::fma(p, r, V::set(1.0 / 362880.0));
  p = V::fma(p, r, V::set(1.0 / 40320.0));
  p = V::fma(p, r, V::set(1.0 / 5040.0));
  p = V::fma(p, r, V::set(1.0 / 720.0));
  p = V::fma(p, r, V::set(1.0 / 120.0));
  p = V::fma(p, r, V::set(1.0 / 24.0));
  p = V::fma(p, r, V::set(1.0 / 6.0));
  p = V::fma(p, r, V::set(0.5));
  p = V::fma(p, r, V::set(1.0));
  p = V::fma(p, r, V::set(1.0));
  return V::scale(p, n, x);
}

template <class V>
void max_and_sum_exp(const float* values, std::size_t count, float* max, double* sum) {
  constexpr std::size_t kWidth = V::kWidth;
  auto largest = V::load(values, 0);
  for (std::size_t i = 0; i < count; i += kWidth) largest = V::max(V::load(values + i, count - i), largest);
  *max = V::largest(largest);

  const auto shift = V::set(static_cast<double>(*max));
  auto low = V::set(0.0), high = V::set(0.0);
  for (std::size_t i = 0; i < count; i += kWidth) {
    const auto x = V::load(values + i, count - i);
    low = V::add(low, exp<V>(V::sub(V::low(x), shift)));
    high = V::add(high, exp<V>(V::sub(V::high(x), shift)));
  }
  *sum = V::total(V::add(low, high));
}

template <class V>
void softmax_sums(const float* p, const float* q, std::size_t count, SoftmaxSums* sums) {
  constexpr std::size_t kWidth = V::kWidth;
  auto largest_p = V::load(p, 0), largest_q = V::load(q, 0);
  for (std::size_t i = 0; i < count; i += kWidth) {
    largest_p = V::max(V::load(p + i, count - i), largest_p);
    largest_q = V::max(V::load(q + i, count - i), largest_q);
  }
  sums->max_p = V::largest(largest_p);
  sums->max_q = V::largest(largest_q);

  using D = typename V::D;
  const D shift_p = V::set(static_cast<double>(sums->max_p)), shift_q = V::set(static_cast<double>(sums->max_q));
  D low_p = V::set(0.0), high_p = V::set(0.0), low_q = V::set(0.0), high_q = V::set(0.0);
  D low_difference = V::set(0.0), high_difference = V::set(0.0);
  const auto add = [&](D x, D y, D& sum_p, D& sum_q, D& difference) {
    const D weight = exp<V>(V::sub(x, shift_p));
    sum_p = V::add(sum_p, weight);
    sum_q = V::add(sum_q, exp<V>(V::sub(y, shift_q)));
    difference = V::weighted(weight, V::sub(x, y), difference);
  };
  for (std::size_t i = 0; i < count; i += kWidth) {
    const auto x = V::load(p + i, count - i), y = V::load(q + i, count - i);
    add(V::low(x), V::low(y), low_p, low_q, low_difference);
    add(V::high(x), V::high(y), high_p, high_q, high_difference);
  }
  sums->sum_p = V::total(V::add(low_p, high_p));
  sums->sum_q = V::total(V::add(low_q, high_q));
  sums->weighted_difference = V::total(V::add(low_difference, high_difference));
}

}  // namespace nibble::eval::kernels
