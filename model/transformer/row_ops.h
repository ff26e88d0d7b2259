#pragma once

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "core/error.h"
#include "model/architecture/architecture.h"
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

/// The kernels of f for float; the definitions of row_ops_generic.h for other scalars. Not for kClampedSwiglu.
inline const row_kernels::ActivationKernels& activation_kernels(Activation f) {
  const row_kernels::Table& table = row_kernels::active();
  switch (f) {
    case Activation::kSilu:
      return table.silu;
    case Activation::kGeluTanh:
      return table.gelu_tanh;
    case Activation::kGelu:
      return table.gelu;
    case Activation::kRelu:
      return table.relu;
    case Activation::kRelu2:
      return table.relu2;
    case Activation::kClampedSwiglu:
      break;
  }
  throw InvalidArgument("activation: clamped_swiglu is a function of gate and up together");
}

/// Calls run(F{}) with the definition of f.
template <class Run>
void with_definition(Activation f, const Run& run) {
  switch (f) {
    case Activation::kSilu:
      return run(generic::Silu{});
    case Activation::kGeluTanh:
      return run(generic::GeluTanh{});
    case Activation::kGelu:
      return run(generic::Gelu{});
    case Activation::kRelu:
      return run(generic::Relu{});
    case Activation::kRelu2:
      return run(generic::Relu2{});
    case Activation::kClampedSwiglu:
      break;
  }
  throw InvalidArgument("activation: clamped_swiglu is a function of gate and up together");
}

/// y = f(x). Float, in ulp of the exact value:
///   silu x / (1 + exp(-x))                        relative error at most 6
///   gelu_tanh x/2 (1 + tanh u)                    (6 + 4|u|), u = sqrt(2/pi) (x + 0.044715 x^3): its own rounding,
///                                                 which the exponential in the negative tail magnifies
///   gelu x Phi(x)                                 5, and results below 14 * 2^-126 may become 0
///   relu, relu2                                   0, 1
/// Throws InvalidArgument for kClampedSwiglu, which takes two arguments.
template <class T>
void activation_row(Activation f, const T* x, T* y, std::size_t n) {
  if constexpr (std::is_same_v<T, float>)
    activation_kernels(f).plain(x, y, n);
  else
    with_definition(f, [&](auto definition) { generic::activation_row<decltype(definition)>(x, y, n); });
}

/// dx = dy * f'(x), with f' = 0 at the kink of relu.
template <class T>
void activation_backward_row(Activation f, const T* x, const T* dy, T* dx, std::size_t n) {
  if constexpr (std::is_same_v<T, float>)
    activation_kernels(f).plain_backward(x, dy, dx, n);
  else
    with_definition(f, [&](auto definition) { generic::activation_backward_row<decltype(definition)>(x, dy, dx, n); });
}

/// y = f(gate) * up.
template <class T>
void gated_activation_row(Activation f, const T* gate, const T* up, T* y, std::size_t n) {
  if constexpr (std::is_same_v<T, float>)
    activation_kernels(f).gated(gate, up, y, n);
  else
    with_definition(f, [&](auto definition) { generic::gated_row<decltype(definition)>(gate, up, y, n); });
}

/// dgate = dy * up * f'(gate), dup = dy * f(gate).
template <class T>
void gated_activation_backward_row(Activation f, const T* gate, const T* up, const T* dy, T* dgate, T* dup,
                                   std::size_t n) {
  if constexpr (std::is_same_v<T, float>)
    activation_kernels(f).gated_backward(gate, up, dy, dgate, dup, n);
  else
    with_definition(
        f, [&](auto definition) { generic::gated_backward_row<decltype(definition)>(gate, up, dy, dgate, dup, n); });
}

/// y = g sigmoid(alpha g) (u + 1) with g = min(gate, limit), u = up clamped to [-limit, limit]. Float: relative error
/// at most (10 + 2 |alpha g|) ulp of the exact value of the rounded u + 1.
template <class T>
void clamped_swiglu_row(const T* gate, const T* up, T* y, std::size_t n, double limit, double alpha) {
  using R = RealOf<T>;
  if constexpr (std::is_same_v<T, float>)
    row_kernels::active().clamped_swiglu(gate, up, y, n, R(limit), R(alpha));
  else
    generic::clamped_swiglu_row(gate, up, y, n, R(limit), R(alpha));
}

/// Its gradients; 0 for what is clamped.
template <class T>
void clamped_swiglu_backward_row(const T* gate, const T* up, const T* dy, T* dgate, T* dup, std::size_t n, double limit,
                                 double alpha) {
  using R = RealOf<T>;
  if constexpr (std::is_same_v<T, float>)
    row_kernels::active().clamped_swiglu_backward(gate, up, dy, dgate, dup, n, R(limit), R(alpha));
  else
    generic::clamped_swiglu_backward_row(gate, up, dy, dgate, dup, n, R(limit), R(alpha));
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
