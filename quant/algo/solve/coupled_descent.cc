#include "quant/algo/solve/coupled_descent.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/matrix/gemm.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kCoupledBlock = 128;
constexpr std::size_t kErrorTile = 16;  // floats, a cache line

/// Codes (out, width) of a block of inputs, input by input: (width, out). In tiles: a row's codes lie far from the
/// next one's.
template <class Code>
void transpose_codes(MatrixView<const Code> codes, MatrixView<Code> by_input) {
  constexpr std::size_t kTile = 64 / sizeof(Code);  // a cache line
  for (std::size_t p = 0; p < codes.cols(); p += kTile)
    for (std::size_t r = 0; r < codes.rows(); ++r)
      for (std::size_t q = p; q < std::min(p + kTile, codes.cols()); ++q) by_input(q, r) = codes(r, q);
}

/// An input that no loss depends on: the codes nearest to its weights.
template <class Code>
void round_column(MatrixView<const float> w, std::size_t j, const BasicColumnRounding<Code>& rounding,
                  std::span<Code> codes, std::vector<float>& decoded) {
  std::vector<float> values(w.rows());
  for (std::size_t r = 0; r < w.rows(); ++r) values[r] = w(r, j);
  rounding.round(j, 0, values, codes.data(), decoded.data());
}

/// One sweep; returns by how much the loss fell. What a block of inputs changes reaches the slopes of all others by one
/// product: the change times H_O is what moving its codes has left behind (CoupledColumn).
template <class Code>
double sweep(MatrixView<const float> w, MatrixView<const float> h_in, MatrixView<const float> h_out,
             const BasicColumnRounding<Code>& rounding, MatrixView<float> slopes, MatrixView<Code> codes) {
  const std::size_t m = slopes.cols(), n = slopes.rows();
  Matrix<float> own(std::min(kCoupledBlock, n), m), changes(own.rows(), m);  // slopes and H_O times changes of a block
  Matrix<Code> columns(own.rows(), m);                                       // the codes of a block
  std::vector<float> values(m);
  double gain = 0.0;
  for (std::size_t begin = 0; begin < n; begin += kCoupledBlock) {
    const std::size_t width = std::min(kCoupledBlock, n - begin);
    std::copy_n(slopes.row(begin).data(), width * m, own.data());
    std::fill_n(changes.data(), width * m, 0.0f);
    const MatrixView<Code> block_codes = columns.view().rows_slice(0, width);
    transpose_codes<Code>(codes.cols_slice(begin, width), block_codes);
    bool changed = false, rounded = false;
    for (std::size_t p = 0; p < width; ++p) {
      const std::size_t j = begin + p;
      const float diagonal = h_in(j, j);
      if (!(diagonal > 0.0f)) {
        round_column<Code>(w, j, rounding, block_codes.row(p), values);
        rounded = true;
        continue;
      }
      const auto slope = own.row(p), change = changes.row(p);
      std::copy(slope.begin(), slope.end(), change.begin());
      const auto column = block_codes.row(p);
      rounding.decode(j, 0, column, values.data());
      CoupledColumn loss(h_out, diagonal, slope);
      rounding.improve(j, loss, column, values);
      if (loss.gain() == 0.0) {
        std::fill(change.begin(), change.end(), 0.0f);
        continue;
      }
      changed = true;
      gain += loss.gain();
      for (std::size_t r = 0; r < m; ++r) change[r] = (slope[r] - change[r]) / diagonal;
      for (std::size_t q = p + 1; q < width; ++q) {
        const float coupling = h_in(j, begin + q);
        float* __restrict to = own.row(q).data();
        const float* __restrict from = change.data();
        for (std::size_t r = 0; r < m; ++r) to[r] += coupling * from[r];
      }
    }
    if (changed || rounded) transpose_codes<Code>(block_codes, codes.cols_slice(begin, width));
    if (!changed) continue;
    parallel_gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, h_in.cols_slice(begin, width),
                         std::as_const(changes).view().rows_slice(0, width), 1.0f, slopes);
  }
  return gain;
}

}  // namespace

Matrix<float> coupled_slopes(MatrixView<const float> delta, MatrixView<const float> h_in,
                             MatrixView<const float> h_out) {
  const std::size_t m = delta.rows(), n = delta.cols();
  NIBBLE_REQUIRE(h_in.rows() == n && h_in.cols() == n && h_out.rows() == m && h_out.cols() == m, InvalidArgument,
                 "coupled_slopes: errors ({}, {}) and Hessians ({}, {}) and ({}, {}) do not fit", m, n, h_in.rows(),
                 h_in.cols(), h_out.rows(), h_out.cols());
  Matrix<float> products(n, m), slopes(n, m);
  parallel_gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, h_in, delta, 0.0f, products);
  parallel_gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, products, h_out, 0.0f, slopes);
  return slopes;
}

double coupled_error(MatrixView<const float> delta, MatrixView<const float> slopes) {
  NIBBLE_REQUIRE(slopes.rows() == delta.cols() && slopes.cols() == delta.rows(), InvalidArgument,
                 "coupled_error: errors ({}, {}) and slopes ({}, {}) do not fit", delta.rows(), delta.cols(),
                 slopes.rows(), slopes.cols());
  double error = 0.0;
  for (std::size_t begin = 0; begin < delta.cols(); begin += kErrorTile) {
    const std::size_t end = std::min(begin + kErrorTile, delta.cols());
    for (std::size_t r = 0; r < delta.rows(); ++r)
      for (std::size_t j = begin; j < end; ++j)
        error += static_cast<double>(delta(r, j)) * static_cast<double>(slopes(j, r));
  }
  return error < 0.0 ? 0.0 : error;  // NaN stays
}

double coupled_error(MatrixView<const float> delta, MatrixView<const float> h_in, MatrixView<const float> h_out) {
  return coupled_error(delta, coupled_slopes(delta, h_in, h_out));
}

template <class Code>
CoupledDescentResult coupled_descent(MatrixView<const float> w, MatrixView<const float> h_in,
                                     MatrixView<const float> h_out, const BasicColumnRounding<Code>& rounding,
                                     std::size_t sweeps, std::type_identity_t<MatrixView<Code>> codes,
                                     double least_gain, Matrix<float> slopes) {
  CoupledDescentResult result;
  {
    const Matrix<float> errors = decoded_errors<Code>(w, rounding, codes);
    result.slopes = slopes.size() > 0 ? std::move(slopes) : coupled_slopes(errors, h_in, h_out);
    result.loss_before = coupled_error(errors, result.slopes);
  }
  NIBBLE_REQUIRE(std::isfinite(result.loss_before), NumericalError,
                 "coupled_descent: the loss before the first sweep is {}: NaN or infinite weights or Hessians",
                 result.loss_before);
  double loss = result.loss_before;
  while (result.sweeps < sweeps) {
    const double gain = sweep<Code>(w, h_in, h_out, rounding, result.slopes, codes);
    ++result.sweeps;
    loss -= gain;
    if (gain <= least_gain * loss) break;
  }
  result.loss = coupled_error(decoded_errors<Code>(w, rounding, codes), result.slopes);
  return result;
}

template CoupledDescentResult coupled_descent(MatrixView<const float>, MatrixView<const float>, MatrixView<const float>,
                                              const ColumnRounding&, std::size_t, MatrixView<std::uint8_t>, double,
                                              Matrix<float>);
template CoupledDescentResult coupled_descent(MatrixView<const float>, MatrixView<const float>, MatrixView<const float>,
                                              const BasicColumnRounding<std::uint16_t>&, std::size_t,
                                              MatrixView<std::uint16_t>, double, Matrix<float>);

}  // namespace nibble::quant
