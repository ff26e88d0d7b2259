#include "quant/algo/solve/coordinate_descent.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "quant/algo/solve/hessian.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kDescentBlock = 128, kDescentRowTile = 128;

struct TileSweep {
  bool changed = false;  // a value
  double gain = 0.0;     // by which the loss fell
};

/// One sweep over a tile of rows.
template <class Code>
TileSweep sweep_tile(MatrixView<const float> w, MatrixView<const float> h, const BasicColumnRounding<Code>& rounding,
                     std::size_t first_row, MatrixView<float> errors, MatrixView<Code> codes) {
  const std::size_t rows = errors.rows(), n = w.cols();
  Matrix<float> slopes(std::min(kDescentBlock, n),
                       rows);  // H · error, input by input, up to date for the running block
  std::vector<float> targets(rows), decoded(rows), changes(rows);
  std::vector<Code> column(rows);
  TileSweep result;
  for (std::size_t begin = 0; begin < n; begin += kDescentBlock) {
    const std::size_t width = std::min(kDescentBlock, n - begin);
    gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, h.rows_slice(begin, width), errors, 0.0f,
                slopes.view().rows_slice(0, width));
    for (std::size_t p = 0; p < width; ++p) {
      const std::size_t j = begin + p;
      const float diagonal = h(j, j);
      for (std::size_t r = 0; r < rows; ++r) {
        const float original = w(first_row + r, j);
        targets[r] = diagonal > 0.0f ? original + errors(r, j) - slopes(p, r) / diagonal : original;
      }
      rounding.round(j, first_row, targets, column.data(), decoded.data());
      bool moved = false;
      double gain = 0.0;
      for (std::size_t r = 0; r < rows; ++r) {
        const float original = w(first_row + r, j), error = decoded[r] - original;
        const double target = static_cast<double>(targets[r]) - static_cast<double>(original);
        const double from = static_cast<double>(errors(r, j)) - target, to = static_cast<double>(error) - target;
        gain += from * from - to * to;
        changes[r] = error - errors(r, j);
        errors(r, j) = error;
        moved |= changes[r] != 0.0f;
        codes(r, j) = column[r];
      }
      if (!moved) continue;
      result.changed = true;
      if (diagonal > 0.0f) result.gain += static_cast<double>(diagonal) * gain;
      for (std::size_t q = p + 1; q < width; ++q) {
        const float coupling = h(j, begin + q);
        const auto slope = slopes.row(q);
        for (std::size_t r = 0; r < rows; ++r) slope[r] += coupling * changes[r];
      }
    }
  }
  return result;
}

template <class Code>
void require_valid(MatrixView<const float> w, MatrixView<const float> h, MatrixView<const Code> codes) {
  NIBBLE_REQUIRE(!w.empty() && h.rows() == w.cols() && h.cols() == w.cols() && codes.rows() == w.rows() &&
                     codes.cols() == w.cols(),
                 InvalidArgument,
                 "coordinate_descent: weights ({}, {}), Hessian ({}, {}) and codes ({}, {}) do not fit", w.rows(),
                 w.cols(), h.rows(), h.cols(), codes.rows(), codes.cols());
}

}  // namespace

template <class Code>
Matrix<float> decoded_errors(MatrixView<const float> w, const BasicColumnRounding<Code>& rounding,
                             std::type_identity_t<MatrixView<const Code>> codes) {
  Matrix<float> errors(w.rows(), w.cols());
  parallel_for_tiles(w.rows(), kDescentRowTile, [&](std::size_t begin, std::size_t end) {
    std::vector<Code> column(end - begin);
    std::vector<float> decoded(end - begin);
    for (std::size_t c = 0; c < w.cols(); ++c) {
      for (std::size_t r = begin; r < end; ++r) column[r - begin] = codes(r, c);
      rounding.decode(c, begin, column, decoded.data());
      for (std::size_t r = begin; r < end; ++r) errors(r, c) = decoded[r - begin] - w(r, c);
    }
  });
  return errors;
}

template <class Code>
DescentResult coordinate_descent(MatrixView<const float> w, MatrixView<const float> h,
                                 const BasicColumnRounding<Code>& rounding, std::size_t sweeps,
                                 std::type_identity_t<MatrixView<Code>> codes, double least_gain) {
  require_valid<Code>(w, h, codes);
  Matrix<float> errors = decoded_errors<Code>(w, rounding, codes);
  const std::size_t size = rounding.whole_columns() ? w.rows() : kDescentRowTile;
  DescentResult result;
  result.loss_before = hessian_error(errors, h);
  NIBBLE_REQUIRE(std::isfinite(result.loss_before), NumericalError,
                 "coordinate_descent: the loss before the first sweep is {}: NaN or infinite weights or Hessian",
                 result.loss_before);
  std::vector<TileSweep> tiles((w.rows() + size - 1) / size, {.changed = true});
  const auto changed = [](const TileSweep& tile) { return tile.changed; };
  double loss = result.loss_before;
  while (result.sweeps < sweeps && std::any_of(tiles.begin(), tiles.end(), changed)) {
    parallel_for_tiles(w.rows(), size, [&](std::size_t begin, std::size_t end) {
      TileSweep& tile = tiles[begin / size];
      const std::size_t rows = end - begin;
      tile = tile.changed ? sweep_tile(w, h, rounding, begin, errors.view().rows_slice(begin, rows),
                                       codes.rows_slice(begin, rows))
                          : TileSweep{};
    });
    ++result.sweeps;
    double gain = 0.0;
    for (const TileSweep& tile : tiles) gain += tile.gain;
    loss -= gain;
    if (gain < least_gain * loss) break;
  }
  result.loss = hessian_error(errors, h);
  return result;
}

template <class Code>
double hessian_error(MatrixView<const float> w, MatrixView<const float> h, const BasicColumnRounding<Code>& rounding,
                     std::type_identity_t<MatrixView<const Code>> codes) {
  require_valid<Code>(w, h, codes);
  return hessian_error(decoded_errors<Code>(w, rounding, codes), h);
}

template Matrix<float> decoded_errors(MatrixView<const float>, const ColumnRounding&, MatrixView<const std::uint8_t>);
template Matrix<float> decoded_errors(MatrixView<const float>, const BasicColumnRounding<std::uint16_t>&,
                                      MatrixView<const std::uint16_t>);
template DescentResult coordinate_descent(MatrixView<const float>, MatrixView<const float>, const ColumnRounding&,
                                          std::size_t, MatrixView<std::uint8_t>, double);
template DescentResult coordinate_descent(MatrixView<const float>, MatrixView<const float>,
                                          const BasicColumnRounding<std::uint16_t>&, std::size_t,
                                          MatrixView<std::uint16_t>, double);
template double hessian_error(MatrixView<const float>, MatrixView<const float>, const ColumnRounding&,
                              MatrixView<const std::uint8_t>);
template double hessian_error(MatrixView<const float>, MatrixView<const float>,
                              const BasicColumnRounding<std::uint16_t>&, MatrixView<const std::uint16_t>);

}  // namespace nibble::quant
