#pragma once

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "model/transformer/row_kernels.h"
#include "model/transformer/row_ops_generic.h"
#include "model/transformer/scalar.h"

namespace nibble::model {

// Primitives on one row of n values, on the calling thread. row_ops_generic.h has the definitions; float runs kernels
// of the active instruction set, within the stated distance of the exact result for finite arguments.
// Outputs may be the very same row as an input, but must not overlap it otherwise.

/// Largest real part; -infinity for n = 0. NaNs may be skipped.
template <class T>
RealOf<T> max_real(const T* x, std::size_t n) {
  if constexpr (std::is_same_v<T, float>)
    return row_kernels::active().max(x, n);
  else
    return generic::max_real(x, n);
}

/// y = exp(x - shift); returns the sum of y. Float: each exp within 2 ulp; results below 2^-126 may become 0.
template <class T>
WideOf<T> exp_row(const T* x, T* y, std::size_t n, T shift) {
  if constexpr (std::is_same_v<T, float>)
    return row_kernels::active().exp(x, y, n, shift);
  else
    return generic::exp_row(x, y, n, shift);
}

/// Sum of exp(x - shift), without storing it.
template <class T>
WideOf<T> sum_exp(const T* x, std::size_t n, T shift) {
  if constexpr (std::is_same_v<T, float>)
    return row_kernels::active().sum_exp(x, n, shift);
  else
    return generic::sum_exp(x, n, shift);
}

/// y = gelu_new(x) = x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3). Float: relative error at most (6 + 4|u|) ulp
/// (the rounding of u itself, which the exponential in the negative tail magnifies).
template <class T>
void gelu_row(const T* x, T* y, std::size_t n) {
  if constexpr (std::is_same_v<T, float>)
    return row_kernels::active().gelu(x, y, n);
  else
    return generic::gelu_row(x, y, n);
}

/// dx = dy * gelu_new'(x).
template <class T>
void gelu_backward_row(const T* x, const T* dy, T* dx, std::size_t n) {
  if constexpr (std::is_same_v<T, float>)
    return row_kernels::active().gelu_backward(x, dy, dx, n);
  else
    return generic::gelu_backward_row(x, dy, dx, n);
}

/// y = silu(gate) * up with silu(x) = x / (1 + exp(-x)). Float: relative error at most 6 ulp.
template <class T>
void silu_mul_row(const T* gate, const T* up, T* y, std::size_t n) {
  if constexpr (std::is_same_v<T, float>)
    return row_kernels::active().silu_mul(gate, up, y, n);
  else
    return generic::silu_mul_row(gate, up, y, n);
}

/// Gradients of silu_mul_row: dgate = dy * up * silu'(gate), dup = dy * silu(gate).
template <class T>
void silu_mul_backward_row(const T* gate, const T* up, const T* dy, T* dgate, T* dup, std::size_t n) {
  if constexpr (std::is_same_v<T, float>)
    return row_kernels::active().silu_mul_backward(gate, up, dy, dgate, dup, n);
  else
    return generic::silu_mul_backward_row(gate, up, dy, dgate, dup, n);
}

/// x = softmax(x) over n > 0 values. Returns the logarithm of the denominator, ln sum exp(x).
template <class T>
WideOf<T> softmax_row(T* x, std::size_t n) {
  const RealOf<T> shift = max_real(x, n);
  const WideOf<T> sum = exp_row<T>(x, x, n, T(shift));
  const T scale = T(1.0 / sum);
  for (std::size_t i = 0; i < n; ++i) x[i] *= scale;
  return static_cast<double>(shift) + std::log(sum);
}

/// ln sum exp(x) over n > 0 values.
template <class T>
WideOf<T> log_sum_exp(const T* x, std::size_t n) {
  const RealOf<T> shift = max_real(x, n);
  return static_cast<double>(shift) + std::log(sum_exp<T>(x, n, T(shift)));
}

/// y += x.
template <class T>
void add_row(const T* x, T* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] += x[i];
}

}  // namespace nibble::model
