#include "quant/algo/solve/coupled_feedback.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/matrix/gemm.h"
#include "core/matrix/rounded.h"
#include "quant/algo/solve/error_feedback.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kLeastBlockRows = 8;

// The inverse of the upper triangular block [first, first + count) of U, by back substitution.
Matrix<float> inverse_block(const Matrix<float>& upper, std::size_t first, std::size_t count) {
  Matrix<double> inverse(count, count);
  for (std::size_t c = 0; c < count; ++c) {
    for (std::size_t r = c + 1; r-- > 0;) {
      double sum = r == c ? 1.0 : 0.0;
      for (std::size_t k = r + 1; k <= c; ++k) sum -= static_cast<double>(upper(first + r, first + k)) * inverse(k, c);
      inverse(r, c) = sum / static_cast<double>(upper(first + r, first + r));
    }
  }
  return rounded(inverse);
}

// What an error of each row costs while the rows behind the block make up for it: the diagonal of (U⁻¹)(U⁻¹)ᵀ.
std::vector<float> row_costs(const Matrix<float>& inverse) {
  std::vector<float> costs(inverse.rows());
  for (std::size_t r = 0; r < costs.size(); ++r)
    for (const float value : inverse.row(r)) costs[r] += value * value;
  return costs;
}

}  // namespace

template <class Code>
Matrix<Code> round_with_coupled_feedback(MatrixView<const float> w, const HessianFactor& inputs,
                                         const HessianFactor& outputs, BasicColumnRounding<Code>& rounding) {
  const std::size_t rows = w.rows();
  NIBBLE_REQUIRE(outputs.order.size() == rows && std::is_sorted(outputs.order.begin(), outputs.order.end()),
                 InvalidArgument,
                 "round_with_coupled_feedback: weights ({}, {}) and a Hessian of {} outputs, which must be in order",
                 rows, w.cols(), outputs.order.size());
  Matrix<float> current(rows, w.cols());
  for (std::size_t r = 0; r < rows; ++r) std::copy(w.row(r).begin(), w.row(r).end(), current.row(r).begin());
  Matrix<Code> codes(rows, w.cols());
  const std::size_t blocks = rounding.row_blocks();
  const std::size_t size = std::max(kLeastBlockRows, (rows + blocks - 1) / blocks);
  for (std::size_t first = 0; first < rows; first += size) {
    const std::size_t count = std::min(size, rows - first), later = rows - first - count;
    const std::size_t ahead = std::min(later, rounding.rows_ahead());
    const std::vector<float> costs = row_costs(inverse_block(outputs.upper, first, count + ahead));
    const auto block = rounding.rows(first, count + ahead, codes, costs);
    const MatrixView<float> target = current.view().rows_slice(first, count);
    const Matrix<Code> made =
        round_with_feedback<Code>(current.view().rows_slice(first, count + ahead), inputs, *block).codes;
    for (std::size_t r = 0; r < count; ++r)
      std::copy(made.row(r).begin(), made.row(r).end(), codes.row(first + r).begin());
    if (later == 0) break;
    std::vector<Code> column(count);
    std::vector<float> decoded(count);
    for (std::size_t j = 0; j < w.cols(); ++j) {
      for (std::size_t r = 0; r < count; ++r) column[r] = made(r, j);
      block->decode(j, 0, column, decoded.data());
      for (std::size_t r = 0; r < count; ++r) target(r, j) -= decoded[r];  // the error now
    }
    Matrix<float> spread(count, later);
    gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, inverse_block(outputs.upper, first, count),
                outputs.upper.view().block(first, first + count, count, later), 0.0f, spread);
    parallel_gemm<float>(Transpose::kYes, Transpose::kNo, -1.0f, spread, target, 1.0f,
                         current.view().rows_slice(first + count, later));
  }
  return codes;
}

template Matrix<std::uint8_t> round_with_coupled_feedback(MatrixView<const float>, const HessianFactor&,
                                                          const HessianFactor&, ColumnRounding&);
template Matrix<std::uint16_t> round_with_coupled_feedback(MatrixView<const float>, const HessianFactor&,
                                                           const HessianFactor&, BasicColumnRounding<std::uint16_t>&);

}  // namespace nibble::quant
