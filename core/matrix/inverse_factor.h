#pragma once

#include "core/matrix/matrix_view.h"

namespace nibble {

/// Replaces a symmetric positive definite A (n, n), of which the lower triangle is read, by the inverse of its lower
/// Cholesky factor: A = L Lᵀ, result L⁻¹ in the lower triangle and zeros above. T = float or double.
///
/// Returns false, leaving A half done, when a pivot is not above 4 epsilon(T) times the diagonal it came from: A is not
/// positive definite as far as T can tell.
/// Blocked: pivot blocks of 128 in double, everything else through gemm(), so about n³/3 multiply-adds at its rate.
/// Memory: a second (n, n). Threads: all; results do not depend on their number.
template <class T>
[[nodiscard]] bool invert_cholesky_factor(Matrix<T>& a);

}  // namespace nibble
