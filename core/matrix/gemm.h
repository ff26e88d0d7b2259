#pragma once

#include <string>

#include "core/matrix/matrix_view.h"
#include "core/matrix/transpose.h"

namespace nibble {

/// C = alpha * op(A) op(B) + beta * C on the calling thread: the one door to matrix products.
///
/// Shapes   op(A) (m, k), op(B) (k, n), C (m, n), all row-major views. beta = 0 overwrites C, whatever it held.
/// T        float (oneDNN; Eigen on Arm and when NIBBLE_FORCE_ISA=scalar), double and std::complex<double> (Eigen; for
/// checks). Result   accumulates in T; the same call gives the same bits on the same processor and library. A row of C
/// may have other last bits where other rows stand beside it: libraries choose kernels by the shape, and sum in another
/// order in those for few rows. Requires C does not overlap A or B. Throws InvalidArgument when the shapes do not fit.
/// Why this library: docs/results/gemm.md.
template <class T>
void gemm(Transpose transpose_a, Transpose transpose_b, T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta,
          MatrixView<T> c);

/// The same on all threads: C is cut into tiles of a fixed size, each one gemm(), so the number of threads does not
/// change the result.
template <class T>
void parallel_gemm(Transpose transpose_a, Transpose transpose_b, T alpha, MatrixView<const T> a, MatrixView<const T> b,
                   T beta, MatrixView<T> c);

/// Library, version and tier behind gemm<float>(), e.g. "oneDNN 2.6.3 avx512-vbmi": part of what unfinished work and
/// caches are known by, and of what statistics say they come from.
std::string gemm_identity();

}  // namespace nibble
