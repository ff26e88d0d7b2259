#pragma once

#include <string>

#include "core/matrix/matrix_view.h"
#include "core/matrix/transpose.h"

namespace nibble {

// On 64-bit Arm, oneDNN has kernels of its own for SVE only, or hands on to Arm's library, which distributions build it
// without; Eigen's are in NEON.
#if defined(__aarch64__)
constexpr bool kEigenForFloats = true;
#else
constexpr bool kEigenForFloats = false;
#endif

/// gemm() by Eigen, for float, double and std::complex<double>. Compiled without sanitizers, as the matrix library is:
/// gemm() looks at the operands.
template <class T>
void eigen_gemm(Transpose transpose_a, Transpose transpose_b, T alpha, MatrixView<const T> a, MatrixView<const T> b,
                T beta, MatrixView<T> c);

/// "Eigen 3.4.0".
std::string eigen_version();

}  // namespace nibble
