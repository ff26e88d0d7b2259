#include "quant/algo/solve/error_feedback.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "quant/algo/rounding/finite.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kFeedbackBlock = 128, kFeedbackRowTile = 128;

/// The rows of one tile on their way through the inputs. Within a block of inputs the values lie input by input, so
/// that the loops over rows run over contiguous numbers; what comes after the block is updated once, by gemm().
template <class Code>
class Tile {
 public:
  Tile(MatrixView<const float> w, std::size_t first_row, std::size_t rows, const HessianFactor& factor,
       BasicColumnRounding<Code>& rounding, Matrix<Code>& codes)
      : w_(w),
        first_row_(first_row),
        rows_(rows),
        factor_(factor),
        rounding_(rounding),
        codes_(codes),
        current_(rows, w.cols()),
        values_(std::min(kFeedbackBlock, w.cols()), rows),
        errors_(values_.rows(), rows),
        decoded_(rows),
        column_codes_(rows) {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t p = 0; p < w.cols(); ++p) current_(r, p) = w(first_row + r, factor.order[p]);
  }

  /// Rounds everything; returns the loss.
  double run() {
    const std::size_t n = w_.cols();
    for (std::size_t begin = 0; begin < n;) {
      const std::size_t end = block_end(begin), width = end - begin;
      for (std::size_t r = 0; r < rows_; ++r)
        for (std::size_t p = 0; p < width; ++p) values_(p, r) = current_(r, begin + p);
      for (std::size_t p = 0; p < width; ++p) round_input(begin, end, p);
      if (end < n) {
        gemm<float>(Transpose::kYes, Transpose::kNo, -1.0f, errors_.view().rows_slice(0, width),
                    factor_.upper.view().block(begin, end, width, n - end), 1.0f,
                    current_.view().cols_slice(end, n - end));
      }
      begin = end;
    }
    return loss_;
  }

 private:
  /// Blocks of grids that adapt either fit into a block whole or begin one: then all their weights are up to date.
  std::size_t block_end(std::size_t begin) const {
    const std::size_t n = w_.cols(), adaptive = rounding_.adaptive_block();
    if (adaptive == 0) return std::min(begin + kFeedbackBlock, n);
    if (adaptive <= kFeedbackBlock) return std::min(begin + kFeedbackBlock / adaptive * adaptive, n);
    return std::min({begin + kFeedbackBlock, (begin / adaptive + 1) * adaptive, n});
  }

  void adapt(std::size_t begin, std::size_t end, std::size_t position) {
    const std::size_t size = std::min(rounding_.adaptive_block(), w_.cols() - position);
    Matrix<float> weights(rows_, size);
    for (std::size_t r = 0; r < rows_; ++r)
      for (std::size_t i = 0; i < size; ++i)
        weights(r, i) = position + i < end ? values_(position + i - begin, r) : current_(r, position + i);
    rounding_.adapt(position / rounding_.adaptive_block(), first_row_, weights);
  }

  void round_input(std::size_t begin, std::size_t end, std::size_t p) {
    const std::size_t position = begin + p, input = factor_.order[position];
    if (rounding_.adaptive_block() != 0 && position % rounding_.adaptive_block() == 0) adapt(begin, end, position);
    const auto values = values_.row(p), errors = errors_.row(p);
    rounding_.round(input, first_row_, values, column_codes_.data(), decoded_.data());

    const float* u = factor_.upper.row(position).data();
    const float inverse = 1.0f / u[position];
    for (std::size_t r = 0; r < rows_; ++r) errors[r] = (values[r] - decoded_[r]) * inverse;
    for (std::size_t q = p + 1; q < end - begin; ++q) subtract(errors, u[begin + q], values_.row(q));

    double damped = 0.0, squares = 0.0;
    for (std::size_t r = 0; r < rows_; ++r) {
      const double difference = static_cast<double>(w_(first_row_ + r, input)) - static_cast<double>(decoded_[r]);
      damped += static_cast<double>(errors[r]) * static_cast<double>(errors[r]);
      squares += difference * difference;
      codes_(first_row_ + r, input) = column_codes_[r];
    }
    if (factor_.silent[input] == 0) loss_ += damped - factor_.damping[input] * squares;
  }

  static void subtract(std::span<const float> errors, float factor, std::span<float> values) {
    const float* __restrict from = errors.data();
    float* __restrict to = values.data();
    for (std::size_t r = 0; r < errors.size(); ++r) to[r] -= factor * from[r];
  }

  MatrixView<const float> w_;
  std::size_t first_row_, rows_;
  const HessianFactor& factor_;
  BasicColumnRounding<Code>& rounding_;
  Matrix<Code>& codes_;
  Matrix<float> current_;          // (rows, in): in the factor's order, up to date from the running block on
  Matrix<float> values_, errors_;  // (block, rows)
  std::vector<float> decoded_;     // (rows)
  std::vector<Code> column_codes_;
  double loss_ = 0.0;
};

template <class Code>
void require_valid(MatrixView<const float> w, const HessianFactor& factor, const BasicColumnRounding<Code>& rounding) {
  NIBBLE_REQUIRE(!w.empty() && factor.order.size() == w.cols(), InvalidArgument,
                 "round_with_feedback: weights ({}, {}) and a Hessian of {} inputs do not fit", w.rows(), w.cols(),
                 factor.order.size());
  NIBBLE_REQUIRE(rounding.adaptive_block() == 0 || std::is_sorted(factor.order.begin(), factor.order.end()),
                 InvalidArgument,
                 "round_with_feedback: grids chosen on the way need the inputs in order; use static groups or no "
                 "act-order");
  for (std::size_t r = 0; r < w.rows(); ++r)
    if (const auto bad = first_not_finite(w.row(r)))
      throw NumericalError(
          fmt::format("round_with_feedback: the weight at row {}, column {} is {}", r, *bad, w(r, *bad)));
}

}  // namespace

template <class Code>
BasicFeedbackResult<Code> round_with_feedback(MatrixView<const float> w, const HessianFactor& factor,
                                              BasicColumnRounding<Code>& rounding) {
  require_valid(w, factor, rounding);
  BasicFeedbackResult<Code> result;
  result.codes = Matrix<Code>(w.rows(), w.cols());
  const std::size_t tile = rounding.whole_columns() ? w.rows() : kFeedbackRowTile;
  std::vector<double> losses((w.rows() + tile - 1) / tile);
  parallel_for_tiles(w.rows(), tile, [&](std::size_t begin, std::size_t end) {
    losses[begin / tile] = Tile<Code>(w, begin, end - begin, factor, rounding, result.codes).run();
  });
  result.loss = std::accumulate(losses.begin(), losses.end(), 0.0);
  NIBBLE_REQUIRE(std::isfinite(result.loss), NumericalError,
                 "round_with_feedback: the feedback overflows; raise the damping (now {} of the diagonal)",
                 factor.damping_share);
  result.loss = std::max(0.0, result.loss);
  return result;
}

template FeedbackResult round_with_feedback(MatrixView<const float>, const HessianFactor&, ColumnRounding&);
template BasicFeedbackResult<std::uint16_t> round_with_feedback(MatrixView<const float>, const HessianFactor&,
                                                                BasicColumnRounding<std::uint16_t>&);

}  // namespace nibble::quant
