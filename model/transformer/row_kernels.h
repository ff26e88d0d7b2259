#pragma once

#include <cstddef>

namespace nibble::model::row_kernels {

/// f(x) and f(gate) up for one activation f, with their gradients.
struct ActivationKernels {
  void (*plain)(const float* x, float* y, std::size_t n);
  void (*plain_backward)(const float* x, const float* dy, float* dx, std::size_t n);
  void (*gated)(const float* gate, const float* up, float* y, std::size_t n);
  void (*gated_backward)(const float* gate, const float* up, const float* dy, float* dgate, float* dup, std::size_t n);
};

/// The float kernels behind row_ops.h for one instruction set; meanings and error bounds stand there.
struct Table {
  float (*max)(const float* x, std::size_t n);
  double (*exp)(const float* x, float* y, std::size_t n, float shift);
  double (*sum_exp)(const float* x, std::size_t n, float shift);
  ActivationKernels silu, gelu_tanh, gelu, relu, relu2;
  void (*clamped_swiglu)(const float* gate, const float* up, float* y, std::size_t n, float limit, float alpha);
  void (*clamped_swiglu_backward)(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                                  std::size_t n, float limit, float alpha);
};

/// The table of active_isa().
const Table& active();

extern const Table kScalar;
extern const Table kAvx2;
extern const Table kAvx512;
extern const Table kNeon;

}  // namespace nibble::model::row_kernels
