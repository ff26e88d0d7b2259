#include "quant/algo/solve/coupled_descent.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/gemm.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kCoupledBlock = 128;

/// One sweep; returns by how much the loss fell.
template <class Code>
double sweep(MatrixView<const float> w, MatrixView<const float> h_in, MatrixView<const float> h_out,
             const BasicColumnRounding<Code>& rounding, MatrixView<float> errors, MatrixView<Code> codes) {
  const std::size_t m = w.rows(), n = w.cols();
  Matrix<float> products(std::min(kCoupledBlock, n), m), slopes(products.rows(), m);  // input by input
  std::vector<float> values(m), moved(m);
  std::vector<Code> column(m);
  double gain = 0.0;
  for (std::size_t begin = 0; begin < n; begin += kCoupledBlock) {
    const std::size_t width = std::min(kCoupledBlock, n - begin);
    const MatrixView<float> product = products.view().rows_slice(0, width);
    parallel_gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, h_in.rows_slice(begin, width), errors, 0.0f, product);
    parallel_gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, product, h_out, 0.0f,
                         slopes.view().rows_slice(0, width));
    for (std::size_t p = 0; p < width; ++p) {
      const std::size_t j = begin + p;
      const float diagonal = h_in(j, j);
      if (!(diagonal > 0.0f)) continue;
      const auto slope = slopes.row(p);
      std::copy(slope.begin(), slope.end(), moved.begin());
      for (std::size_t r = 0; r < m; ++r) column[r] = codes(r, j);
      rounding.decode(j, 0, column, values.data());
      CoupledColumn loss(h_out, diagonal, slope);
      rounding.improve(j, loss, column, values);
      if (loss.gain() == 0.0) continue;
      gain += loss.gain();
      for (std::size_t r = 0; r < m; ++r) {
        errors(r, j) = values[r] - w(r, j);
        codes(r, j) = column[r];
        moved[r] = (slope[r] - moved[r]) / diagonal;  // H_O times the change of the column
      }
      for (std::size_t q = p + 1; q < width; ++q) {
        const float coupling = h_in(j, begin + q);
        float* __restrict to = slopes.row(q).data();
        const float* __restrict from = moved.data();
        for (std::size_t r = 0; r < m; ++r) to[r] += coupling * from[r];
      }
    }
  }
  return gain;
}

}  // namespace

double coupled_error(MatrixView<const float> delta, MatrixView<const float> h_in, MatrixView<const float> h_out) {
  const std::size_t m = delta.rows(), n = delta.cols();
  NIBBLE_REQUIRE(h_in.rows() == n && h_in.cols() == n && h_out.rows() == m && h_out.cols() == m, InvalidArgument,
                 "coupled_error: errors ({}, {}) and Hessians ({}, {}) and ({}, {}) do not fit", m, n, h_in.rows(),
                 h_in.cols(), h_out.rows(), h_out.cols());
  Matrix<float> right(m, n), left(m, n);
  parallel_gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, delta, h_in, 0.0f, right);
  parallel_gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, h_out, delta, 0.0f, left);
  double error = 0.0;
  for (std::size_t i = 0; i < right.size(); ++i)
    error += static_cast<double>(left.data()[i]) * static_cast<double>(right.data()[i]);
  return error < 0.0 ? 0.0 : error;  // NaN stays
}

template <class Code>
DescentResult coupled_descent(MatrixView<const float> w, MatrixView<const float> h_in, MatrixView<const float> h_out,
                              const BasicColumnRounding<Code>& rounding, std::size_t sweeps,
                              std::type_identity_t<MatrixView<Code>> codes, double least_gain) {
  Matrix<float> errors = decoded_errors<Code>(w, rounding, codes);
  DescentResult result;
  result.loss_before = coupled_error(errors, h_in, h_out);
  NIBBLE_REQUIRE(std::isfinite(result.loss_before), NumericalError,
                 "coupled_descent: the loss before the first sweep is {}: NaN or infinite weights or Hessians",
                 result.loss_before);
  double loss = result.loss_before;
  while (result.sweeps < sweeps) {
    const double gain = sweep<Code>(w, h_in, h_out, rounding, errors, codes);
    ++result.sweeps;
    loss -= gain;
    if (gain <= least_gain * loss) break;
  }
  result.loss = coupled_error(errors, h_in, h_out);
  return result;
}

template DescentResult coupled_descent(MatrixView<const float>, MatrixView<const float>, MatrixView<const float>,
                                       const ColumnRounding&, std::size_t, MatrixView<std::uint8_t>, double);
template DescentResult coupled_descent(MatrixView<const float>, MatrixView<const float>, MatrixView<const float>,
                                       const BasicColumnRounding<std::uint16_t>&, std::size_t,
                                       MatrixView<std::uint16_t>, double);

}  // namespace nibble::quant
