#include "core/linear_op.h"

#include <algorithm>
#include <complex>

#include "core/error.h"
#include "core/gemm.h"
#include "core/thread_pool.h"

namespace nibble {
namespace {

// A tile of C is (kTokenTile, kRowTile): 256 x 128 reaches the full rate of the library at in = 384 and more, and gives
// a 384-wide layer over 512 tokens 6 tiles to share out. Decoding a tile costs about 1/50 of multiplying it.
constexpr std::size_t kTokenTile = 256, kRowTile = 128;

template <class T>
void check(const LinearOp<T>& op, std::size_t x_rows, std::size_t x_cols, std::size_t y_rows, std::size_t y_cols) {
  NIBBLE_REQUIRE(x_rows == y_rows && x_cols == op.in_features() && y_cols == op.out_features(), InvalidArgument,
                 "linear ({}, {}): expected X (tokens, {}) and Y (tokens, {}), got ({}, {}) and ({}, {})",
                 op.out_features(), op.in_features(), op.in_features(), op.out_features(), x_rows, x_cols, y_rows,
                 y_cols);
}

template <class T>
void check_bias(std::size_t bias, std::size_t out) {
  NIBBLE_REQUIRE(bias == 0 || bias == out, InvalidArgument, "linear: expected a bias of {} values, got {}", out, bias);
}

template <class T>
void add_bias(MatrixView<T> y, const T* bias) {
  for (std::size_t r = 0; r < y.rows(); ++r) {
    T* row = y.data() + r * y.stride();
    for (std::size_t c = 0; c < y.cols(); ++c) row[c] += bias[c];
  }
}

std::vector<float>& scratch(std::size_t size) {
  thread_local std::vector<float> buffer;
  if (buffer.size() < size) buffer.resize(size);
  return buffer;
}

}  // namespace

void WeightSource::decode_rows_transposed(std::size_t, std::size_t, float*) const {
  throw InvalidArgument("WeightSource: this source is not stored transposed");
}

DecodingLinear::DecodingLinear(std::shared_ptr<const WeightSource> source, std::vector<float> bias)
    : source_(std::move(source)), bias_(std::move(bias)) {
  check_bias<float>(bias_.size(), source_->rows());
}

void DecodingLinear::forward(MatrixView<const float> x, MatrixView<float> y) const {
  check(*this, x.rows(), x.cols(), y.rows(), y.cols());
  const std::size_t in = in_features(), out = out_features();
  const std::size_t row_tiles = (out + kRowTile - 1) / kRowTile, token_tiles = (x.rows() + kTokenTile - 1) / kTokenTile;
  parallel_for(row_tiles * token_tiles, [&](std::size_t tile) {
    const std::size_t row = tile / token_tiles * kRowTile, token = tile % token_tiles * kTokenTile;
    const std::size_t rows = std::min(kRowTile, out - row), tokens = std::min(kTokenTile, x.rows() - token);
    float* weight = scratch(kRowTile * in).data();
    const auto x_tile = x.rows_slice(token, tokens);
    const auto y_tile = y.block(token, row, tokens, rows);
    if (source_->stored_transposed()) {
      source_->decode_rows_transposed(row, row + rows, weight);
      gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, x_tile, {weight, in, rows}, 0.0f, y_tile);
    } else {
      source_->decode_rows(row, row + rows, weight);
      gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, x_tile, {weight, rows, in}, 0.0f, y_tile);
    }
    if (!bias_.empty()) add_bias(y_tile, bias_.data() + row);
  });
}

void DecodingLinear::backward_input(MatrixView<const float> dy, MatrixView<float> dx) const {
  check(*this, dx.rows(), dx.cols(), dy.rows(), dy.cols());
  // Tiles of tokens only: the sum over output rows stays in one fixed order, whatever the number of threads.
  const std::size_t in = in_features(), out = out_features();
  parallel_for_tiles(dx.rows(), kTokenTile, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = 0; row < out; row += kRowTile) {
      const std::size_t rows = std::min(kRowTile, out - row);
      float* weight = scratch(kRowTile * in).data();
      const auto dy_tile = dy.block(begin, row, end - begin, rows);
      const auto dx_tile = dx.rows_slice(begin, end - begin);
      const float beta = row == 0 ? 0.0f : 1.0f;
      if (source_->stored_transposed()) {
        source_->decode_rows_transposed(row, row + rows, weight);
        gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, dy_tile, {weight, in, rows}, beta, dx_tile);
      } else {
        source_->decode_rows(row, row + rows, weight);
        gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, dy_tile, {weight, rows, in}, beta, dx_tile);
      }
    }
  });
}

template <class T>
DenseLinear<T>::DenseLinear(Matrix<T> weight, std::vector<T> bias)
    : weight_(std::move(weight)), bias_(std::move(bias)) {
  check_bias<T>(bias_.size(), weight_.rows());
}

template <class T>
void DenseLinear<T>::forward(MatrixView<const T> x, MatrixView<T> y) const {
  check(*this, x.rows(), x.cols(), y.rows(), y.cols());
  parallel_gemm<T>(Transpose::kNo, Transpose::kYes, T(1), x, weight_.view(), T(0), y);
  if (!bias_.empty()) add_bias(y, bias_.data());
}

template <class T>
void DenseLinear<T>::backward_input(MatrixView<const T> dy, MatrixView<T> dx) const {
  check(*this, dx.rows(), dx.cols(), dy.rows(), dy.cols());
  parallel_gemm<T>(Transpose::kNo, Transpose::kNo, T(1), dy, weight_.view(), T(0), dx);
}

template class DenseLinear<float>;
template class DenseLinear<double>;
template class DenseLinear<std::complex<double>>;

}  // namespace nibble
