#pragma once

#include <cstddef>

namespace nibble::quant {

/// Some rows of a float weight where they lie, and up to four vectors of activations.
struct FloatMatvecArgs {
  const void* weight;  ///< (rows, cols) float16, bfloat16 or float32, any alignment
  std::size_t rows, cols;
  const float* x;  ///< (tokens, x_stride), zero from cols to the next multiple of 16
  std::size_t x_stride;
  float* y;  ///< (tokens, y_stride)
  std::size_t y_stride;
};

/// y[t, r] = sum over j of w_rj · x_tj, in float32 with FMA where the processor has it. Weights widen exactly.
/// Result   within 2 (cols + 20) eps(float) sum_j |w_rj x_tj|; the same bits for a token whatever others come with it.
using FloatMatvec = void (*)(const FloatMatvecArgs&);

enum class FloatType { kF16, kBF16, kF32 };

/// Kernels of one instruction set by type and tokens taken at a time (1 or 4).
struct FloatMatvecTable {
  FloatMatvec by_type[3][2];
};
extern const FloatMatvecTable kFloatMatvecScalar, kFloatMatvecAvx2, kFloatMatvecAvx512, kFloatMatvecNeon;

/// The kernel of the instruction set in force.
FloatMatvec select_float_matvec(FloatType type, std::size_t tokens);

}  // namespace nibble::quant
