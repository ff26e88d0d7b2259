#include "core/matrix/inverse_factor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"

namespace nibble {
namespace {

constexpr std::size_t kFactorBlock = 128, kUpdateTile = 256;

/// A pivot block, in double whatever T is: it costs little and keeps the pivots sharp.
class PivotBlock {
 public:
  /// Factors the lower triangle of `a` and inverts the factor. `least` are the smallest pivots allowed.
  template <class T>
  bool factor_and_invert(MatrixView<T> a, const T* least) {
    size_ = a.rows();
    lower_ = Matrix<double>(size_, size_);
    inverse_ = Matrix<double>(size_, size_);
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double rest = static_cast<double>(a(i, j));
        for (std::size_t k = 0; k < j; ++k) rest -= lower_(i, k) * lower_(j, k);
        if (j < i) {
          lower_(i, j) = rest / lower_(j, j);
        } else if (rest > static_cast<double>(least[i])) {  // false for NaN
          lower_(i, i) = std::sqrt(rest);
        } else {
          return false;
        }
      }
    }
    for (std::size_t i = 0; i < size_; ++i) {
      const auto row = inverse_.row(i);
      for (std::size_t k = 0; k < i; ++k)
        for (std::size_t j = 0; j <= k; ++j) row[j] -= lower_(i, k) * inverse_(k, j);
      for (std::size_t j = 0; j < i; ++j) row[j] /= lower_(i, i);
      row[i] = 1.0 / lower_(i, i);
    }
    return true;
  }
  /// The inverse, zeros above the diagonal.
  template <class T>
  void copy_inverse(MatrixView<T> destination) const {
    for (std::size_t i = 0; i < size_; ++i)
      for (std::size_t j = 0; j < size_; ++j) destination(i, j) = static_cast<T>(inverse_(i, j));
  }

 private:
  std::size_t size_ = 0;
  Matrix<double> lower_, inverse_;
};

/// C -= P Pᵀ on and below the diagonal, in tiles.
template <class T>
void subtract_outer_product(MatrixView<const T> p, MatrixView<T> c) {
  const std::size_t tiles = (c.rows() + kUpdateTile - 1) / kUpdateTile;
  parallel_for(tiles * tiles, [&](std::size_t tile) {
    const std::size_t r = tile / tiles * kUpdateTile, k = tile % tiles * kUpdateTile;
    if (k > r) return;
    const std::size_t rows = std::min(kUpdateTile, c.rows() - r), cols = std::min(kUpdateTile, c.cols() - k);
    gemm<T>(Transpose::kNo, Transpose::kYes, T(-1), p.rows_slice(r, rows), p.rows_slice(k, cols), T(1),
            c.block(r, k, rows, cols));
  });
}

}  // namespace

template <class T>
bool invert_cholesky_factor(Matrix<T>& a) {
  const std::size_t n = a.rows();
  std::vector<T> least(n);
  for (std::size_t i = 0; i < n; ++i) least[i] = 4 * std::numeric_limits<T>::epsilon() * a(i, i);

  // A becomes L below its pivot blocks; the inverses of L's pivot blocks go to the diagonal of `inverse`.
  Matrix<T> inverse(n, n);
  PivotBlock pivot;
  Matrix<T> panel(n, std::min(n, kFactorBlock));
  for (std::size_t begin = 0; begin < n; begin += kFactorBlock) {
    const std::size_t width = std::min(kFactorBlock, n - begin), rest = n - begin - width;
    const auto diagonal = inverse.view().block(begin, begin, width, width);
    if (!pivot.factor_and_invert(a.view().block(begin, begin, width, width), &least[begin])) return false;
    pivot.copy_inverse(diagonal);
    if (rest == 0) break;
    const auto below = a.view().block(begin + width, begin, rest, width);
    const auto solved = panel.view().block(0, 0, rest, width);
    parallel_gemm<T>(Transpose::kNo, Transpose::kYes, T(1), below, diagonal, T(0), solved);
    for (std::size_t i = 0; i < rest; ++i) std::copy_n(solved.row(i).data(), width, below.row(i).data());
    subtract_outer_product<T>(solved, a.view().block(begin + width, begin + width, rest, rest));
  }

  // L X = I by forward substitution, each block of columns of X on its own.
  parallel_for((n + kFactorBlock - 1) / kFactorBlock, [&](std::size_t index) {
    const std::size_t column = index * kFactorBlock, cols = std::min(kFactorBlock, n - column);
    Matrix<T> known(kFactorBlock, cols);
    for (std::size_t row = column + cols; row < n; row += kFactorBlock) {
      const std::size_t rows = std::min(kFactorBlock, n - row);
      const auto product = known.view().rows_slice(0, rows);
      gemm<T>(Transpose::kNo, Transpose::kNo, T(1), a.view().block(row, column, rows, row - column),
              inverse.view().block(column, column, row - column, cols), T(0), product);
      gemm<T>(Transpose::kNo, Transpose::kNo, T(-1), inverse.view().block(row, row, rows, rows), product, T(0),
              inverse.view().block(row, column, rows, cols));
    }
  });
  a = std::move(inverse);
  return true;
}

template bool invert_cholesky_factor<float>(Matrix<float>&);
template bool invert_cholesky_factor<double>(Matrix<double>&);

}  // namespace nibble
