#include "core/matrix/linear_op.h"

#include <algorithm>
#include <complex>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "core/matrix/linear_checks.h"

namespace nibble {
namespace {

// The tiles of Y that one product fills. Wide ones waste less on packing (4096 inputs: 158 against 144 GFLOP/s) but
// need enough of them to share out; a 384-wide layer over 512 tokens makes 6 narrow ones. The shape alone decides, so
// that the number of threads does not change the result. The rows decoded for a tile take at most kDecodedBytes per
// thread.
constexpr std::size_t kTokenTile = 256, kNarrow = 128, kWide = 512;
constexpr std::size_t kDecodedBytes = 8u << 20, kEnoughTiles = 16;

std::size_t tiles_of(std::size_t count, std::size_t tile) { return (count + tile - 1) / tile; }

std::size_t choose_row_tile(std::size_t tokens, std::size_t in, std::size_t out) {
  const bool enough = tiles_of(tokens, kTokenTile) * tiles_of(out, kWide) >= kEnoughTiles;
  return enough && kWide * in * sizeof(float) <= kDecodedBytes ? kWide : kNarrow;
}

// Backwards, rows of W are summed over: blocks of kDepth rows, decoded in groups of at most kGroupBytes that all
// threads then read. A tile of dX is (kTokenTile, kColumnTile).
constexpr std::size_t kDepth = 256, kGroupBytes = 32u << 20, kColumnTile = 256;

template <class T>
void add_bias(MatrixView<T> y, const T* bias) {
  for (std::size_t r = 0; r < y.rows(); ++r) {
    T* row = y.data() + r * y.stride();
    for (std::size_t c = 0; c < y.cols(); ++c) row[c] += bias[c];
  }
}

}  // namespace

std::uint64_t decoded_bytes_per_thread(std::size_t in) {
  const std::uint64_t row = in * sizeof(float);
  return kWide * row <= kDecodedBytes ? kWide * row : kNarrow * row;
}

namespace {

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
  check_linear_bias(bias_.size(), source_->rows());
}

void DecodingLinear::forward(MatrixView<const float> x, MatrixView<float> y) const {
  check_linear_shapes(out_features(), in_features(), x, y);
  const std::size_t in = in_features(), out = out_features();
  const std::size_t row_tile = choose_row_tile(x.rows(), in, out), token_tiles = tiles_of(x.rows(), kTokenTile);
  parallel_for(tiles_of(out, row_tile) * token_tiles, [&](std::size_t tile) {
    const std::size_t row = tile / token_tiles * row_tile, token = tile % token_tiles * kTokenTile;
    const std::size_t rows = std::min(row_tile, out - row), tokens = std::min(kTokenTile, x.rows() - token);
    float* weight = scratch(row_tile * in).data();
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
  check_linear_shapes(out_features(), in_features(), dx, dy);
  const std::size_t in = in_features(), out = out_features(), block_size = kDepth * in;
  const std::size_t blocks = tiles_of(out, kDepth);
  const std::size_t per_group = std::max<std::size_t>(1, std::min(blocks, kGroupBytes / (block_size * sizeof(float))));
  const std::size_t column_tiles = tiles_of(in, kColumnTile), tiles = tiles_of(dy.rows(), kTokenTile) * column_tiles;
  float* const decoded = scratch(per_group * block_size).data();
  const auto rows_of = [&](std::size_t block) { return std::min(kDepth, out - block * kDepth); };
  for (std::size_t group = 0; group < blocks; group += per_group) {
    const std::size_t count = std::min(per_group, blocks - group);
    parallel_for(count, [&](std::size_t i) {
      const std::size_t row = (group + i) * kDepth, end = row + rows_of(group + i);
      float* destination = decoded + i * block_size;
      source_->stored_transposed() ? source_->decode_rows_transposed(row, end, destination)
                                   : source_->decode_rows(row, end, destination);
    });
    parallel_for(tiles, [&](std::size_t tile) {
      const std::size_t token = tile / column_tiles * kTokenTile, column = tile % column_tiles * kColumnTile;
      const std::size_t tokens = std::min(kTokenTile, dy.rows() - token), columns = std::min(kColumnTile, in - column);
      const auto dx_tile = dx.block(token, column, tokens, columns);
      for (std::size_t i = 0; i < count; ++i) {  // in this order whatever the group: one fixed sum
        const std::size_t block = group + i, rows = rows_of(block);
        const float* weight = decoded + i * block_size;
        const auto dy_tile = dy.block(token, block * kDepth, tokens, rows);
        const float beta = block == 0 ? 0.0f : 1.0f;
        if (source_->stored_transposed()) {
          const auto part = MatrixView<const float>(weight, in, rows).rows_slice(column, columns);
          gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, dy_tile, part, beta, dx_tile);
        } else {
          const auto part = MatrixView<const float>(weight, rows, in).cols_slice(column, columns);
          gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, dy_tile, part, beta, dx_tile);
        }
      }
    });
  }
}

template <class T>
DenseLinear<T>::DenseLinear(Matrix<T> weight, std::vector<T> bias)
    : weight_(std::move(weight)), bias_(std::move(bias)) {
  check_linear_bias(bias_.size(), weight_.rows());
}

template <class T>
void DenseLinear<T>::forward(MatrixView<const T> x, MatrixView<T> y) const {
  check_linear_shapes(out_features(), in_features(), x, y);
  parallel_gemm<T>(Transpose::kNo, Transpose::kYes, T(1), x, weight_.view(), T(0), y);
  if (!bias_.empty()) add_bias(y, bias_.data());
}

template <class T>
void DenseLinear<T>::backward_input(MatrixView<const T> dy, MatrixView<T> dx) const {
  check_linear_shapes(out_features(), in_features(), dx, dy);
  parallel_gemm<T>(Transpose::kNo, Transpose::kNo, T(1), dy, weight_.view(), T(0), dx);
}

template class DenseLinear<float>;
template class DenseLinear<double>;
template class DenseLinear<std::complex<double>>;

}  // namespace nibble
