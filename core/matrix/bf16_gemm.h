#pragma once

#include <cstdint>

#include "core/matrix/gemm.h"

namespace nibble {

/// Whether the matrix library multiplies bfloat16 numbers with instructions made for them (AVX-512 BF16, AMX), under
/// the instruction set in force.
bool has_bf16_gemm();

/// C = A op(B) on the calling thread, of bfloat16 numbers as bits, with sums in float32.
///
/// Shapes   A (m, k), op(B) (k, n), C (m, n), all row-major views; C is overwritten.
/// Result   products are exact; sums are rounded as the processor's instructions do, which take subnormal numbers
///          for 0. The same call gives the same bits on the same processor and library.
/// Requires has_bf16_gemm(), and that C does not overlap A or B. Throws InvalidArgument when the shapes do not fit.
void bf16_gemm(Transpose transpose_b, MatrixView<const std::uint16_t> a, MatrixView<const std::uint16_t> b,
               MatrixView<float> c);

}  // namespace nibble
