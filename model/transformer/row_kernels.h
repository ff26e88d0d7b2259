#pragma once

#include <cstddef>

namespace nibble::model::row_kernels {

/// The float kernels behind row_ops.h for one instruction set; meanings and error bounds stand there.
struct Table {
  float (*max)(const float* x, std::size_t n);
  double (*exp)(const float* x, float* y, std::size_t n, float shift);
  double (*sum_exp)(const float* x, std::size_t n, float shift);
  void (*gelu)(const float* x, float* y, std::size_t n);
  void (*gelu_backward)(const float* x, const float* dy, float* dx, std::size_t n);
  void (*silu_mul)(const float* gate, const float* up, float* y, std::size_t n);
  void (*silu_mul_backward)(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                            std::size_t n);
};

/// The table of active_isa().
const Table& active();

extern const Table kScalar;
extern const Table kAvx2;
extern const Table kAvx512;

}  // namespace nibble::model::row_kernels
