#include "quant/kernels/bf16/bf16_tile_products.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/checked_math.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "core/matrix/linear_checks.h"
#include "quant/kernels/packing/line_vector.h"

namespace nibble::quant {
namespace {

// What is multiplied at a time: 256 inputs of 256 tokens stay in the second-level cache while rows of W go by.
constexpr std::size_t kChunkSteps = 8, kMostTokenTiles = 16;
constexpr std::size_t kMostTokens = kMostTokenTiles * kBf16Tile;

std::size_t pairs_of_tiles(std::size_t count) { return divide_up(count, 2 * kBf16Tile) * 2; }

// Calls back with each chunk of inputs' first step and number of steps.
template <class Use>
void for_each_chunk(std::size_t steps, const Use& use) {
  for (std::size_t first = 0; first < steps; first += kChunkSteps) use(first, std::min(kChunkSteps, steps - first));
}

// Grows only, because new pages cost.
template <class T>
T* at_least(LineVector<T>& buffer, std::size_t size) {
  if (buffer.size() < size) buffer.resize(size);
  return buffer.data();
}

// Lines of `length` numbers beside each other, to `stride` numbers from one another: zeros between them.
void spread(float* lines, std::size_t count, std::size_t length, std::size_t stride) {
  if (length == stride) return;
  for (std::size_t line = count; line-- > 0;) {
    std::copy_backward(lines + line * length, lines + (line + 1) * length, lines + line * stride + length);
    std::fill(lines + line * stride + length, lines + (line + 1) * stride, 0.0f);
  }
}

// Tokens as (groups of 16 tiles, chunks, tiles of the group, steps of the chunk, 16 tokens, 32), ends filled with
// zeros.
class TokenTiles {
 public:
  TokenTiles(const Bf16TileKernels& kernels, MatrixView<const float> x, std::size_t steps,
             LineVector<std::uint16_t>& buffer)
      : tiles_(pairs_of_tiles(x.rows())), steps_(steps) {
    std::uint16_t* bits = at_least(buffer, tiles_ * steps * kBf16TileBits);
    bits_ = bits;
    const std::size_t padded = steps * kBf16TileInputs;
    parallel_for(tiles_ * kBf16Tile, [&](std::size_t token) {
      thread_local LineVector<float> padded_buffer;
      const float* line = token < x.rows() ? x.row(token).data() : nullptr;
      if (line == nullptr || x.cols() < padded) {
        float* filled = at_least(padded_buffer, padded);
        std::fill_n(filled, padded, 0.0f);
        if (line != nullptr) std::copy_n(line, x.cols(), filled);
        line = filled;
      }
      const std::size_t tile = token / kBf16Tile, group = tile / kMostTokenTiles;
      for_each_chunk(steps, [&](std::size_t first, std::size_t count) {
        kernels.arrange_token(line + first * kBf16TileInputs, count,
                              bits + place(group, first) + tile % kMostTokenTiles * count * kBf16TileBits +
                                  token % kBf16Tile * kBf16TileInputs);
      });
    });
  }
  std::size_t groups() const { return divide_up(tiles_, kMostTokenTiles); }
  std::size_t tiles_of(std::size_t group) const { return std::min(kMostTokenTiles, tiles_ - group * kMostTokenTiles); }
  const std::uint16_t* chunk(std::size_t group, std::size_t first_step) const {
    return bits_ + place(group, first_step);
  }

 private:
  std::size_t place(std::size_t group, std::size_t first_step) const {
    return (group * kMostTokenTiles * steps_ + tiles_of(group) * first_step) * kBf16TileBits;
  }
  std::size_t tiles_, steps_;
  const std::uint16_t* bits_ = nullptr;
};

class TileProducts final : public LinearOp<float> {
 public:
  TileProducts(const Bf16TileKernels& kernels, std::shared_ptr<const WeightSource> source, std::vector<float> bias)
      : kernels_(kernels), source_(std::move(source)), bias_(std::move(bias)) {
    check_linear_bias(bias_.size(), source_->rows());
  }
  std::size_t in_features() const override { return source_->cols(); }
  std::size_t out_features() const override { return source_->rows(); }
  std::string kernel_name() const override { return std::string("tiles_bf16_") + kernels_.name; }
  void release() const override { source_->release(); }
  void backward_input(MatrixView<const float>, MatrixView<float>) const override {
    throw InvalidArgument("bf16 products: gradients are of exact products");
  }

  void forward(MatrixView<const float> x, MatrixView<float> y) const override {
    check_linear_shapes(out_features(), in_features(), x, y);
    thread_local LineVector<std::uint16_t> x_buffer;  // the calling thread's, for all threads
    const TokenTiles tokens(kernels_, x, steps(), x_buffer);
    parallel_for_tiles(out_features(), rows_at_a_time(), [&](std::size_t begin, std::size_t end) {
      thread_local LineVector<std::uint16_t> w_buffer;
      const std::size_t row_tiles = pairs_of_tiles(end - begin);
      std::uint16_t* w = at_least(w_buffer, row_tiles * steps() * kBf16TileBits);
      arrange(begin, end, w);
      for (std::size_t group = 0; group < tokens.groups(); ++group) multiply(tokens, group, w, begin, end, y);
    });
  }

 private:
  // Many, since X comes anew from further caches for each; but some for every thread.
  std::size_t rows_at_a_time() const {
    constexpr std::size_t kMost = 512, kShares = 4;
    const std::size_t share = std::min(kMost, divide_up(out_features(), kShares * thread_count()));
    const std::size_t whole = std::max(2 * kBf16Tile, source_->rows_together());
    return divide_up(share, whole) * whole;
  }

  std::size_t steps() const { return divide_up(in_features(), kBf16TileInputs); }

  // Rows of W as (chunks, row tiles, steps of the chunk, 16 pairs, 16 rows, 2), ends filled with zeros.
  void arrange(std::size_t begin, std::size_t end, std::uint16_t* w) const {
    const std::size_t in = in_features(), padded = steps() * kBf16TileInputs, row_tiles = pairs_of_tiles(end - begin);
    const std::size_t most = std::max(kBf16Tile, source_->rows_together()), most_tiles = divide_up(most, kBf16Tile);
    thread_local LineVector<float> decoded_buffer;
    float* decoded = at_least(decoded_buffer, most_tiles * kBf16Tile * padded);
    for (std::size_t tile = 0; tile < row_tiles; tile += most_tiles) {
      const std::size_t first_row = std::min(begin + tile * kBf16Tile, end), rows = std::min(most, end - first_row);
      const std::size_t tiles = std::min(most_tiles, row_tiles - tile);
      const bool turned = source_->stored_transposed();
      if (turned && rows > 0) source_->decode_rows_transposed(first_row, first_row + rows, decoded);
      if (!turned) {
        std::fill_n(decoded, rows == tiles * kBf16Tile && in == padded ? 0 : tiles * kBf16Tile * padded, 0.0f);
        if (rows > 0) source_->decode_rows(first_row, first_row + rows, decoded);
        spread(decoded, rows, in, padded);
      }
      for (std::size_t i = 0; i < tiles; ++i) {
        const float* columns = turned ? columns_of_tile(decoded, rows, i * kBf16Tile) : nullptr;
        for_each_chunk(steps(), [&](std::size_t first, std::size_t count) {
          std::uint16_t* to = w + (first * row_tiles + (tile + i) * count) * kBf16TileBits;
          if (turned) return kernels_.arrange_columns(columns + first * kBf16TileInputs * kBf16Tile, count, to);
          kernels_.arrange_rows(decoded + i * kBf16Tile * padded + first * kBf16TileInputs, padded, count, to);
        });
      }
    }
  }

  // Of `decoded` (in, rows) those of a tile: (padded inputs, 16), filled with zeros where rows end.
  const float* columns_of_tile(const float* decoded, std::size_t rows, std::size_t first) const {
    const std::size_t in = in_features(), padded = steps() * kBf16TileInputs;
    if (rows == kBf16Tile && in == padded) return decoded;
    thread_local LineVector<float> buffer;
    float* columns = at_least(buffer, padded * kBf16Tile);
    std::fill_n(columns, padded * kBf16Tile, 0.0f);
    const std::size_t count = std::min(kBf16Tile, rows - std::min(rows, first));
    for (std::size_t j = 0; j < in; ++j) std::copy_n(decoded + j * rows + first, count, columns + j * kBf16Tile);
    return columns;
  }

  void multiply(const TokenTiles& tokens, std::size_t group, const std::uint16_t* w, std::size_t begin, std::size_t end,
                MatrixView<float> y) const {
    thread_local LineVector<float> sums_buffer;
    const std::size_t row_tiles = pairs_of_tiles(end - begin), token_tiles = tokens.tiles_of(group);
    float* sums = at_least(sums_buffer, row_tiles * token_tiles * kBf16TileSums);
    for_each_chunk(steps(), [&](std::size_t first, std::size_t count) {
      kernels_.multiply({.x = tokens.chunk(group, first),
                         .w = w + first * row_tiles * kBf16TileBits,
                         .sums = sums,
                         .token_tiles = token_tiles,
                         .row_tiles = row_tiles,
                         .steps = count,
                         .first = first == 0});
    });
    const std::size_t first_token = group * kMostTokens, count = std::min(kMostTokens, y.rows() - first_token);
    for (std::size_t t = 0; t < count; ++t) {
      float* line = y.row(first_token + t).data();
      const float* of_token = sums + t * kBf16Tile;  // a token's sums with 16 rows lie beside each other
      for (std::size_t row = begin; row < end; row += kBf16Tile, of_token += token_tiles * kBf16TileSums)
        std::copy_n(of_token, std::min(kBf16Tile, end - row), line + row);
      if (bias_.empty()) continue;
      for (std::size_t row = begin; row < end; ++row) line[row] += bias_[row];
    }
  }

  const Bf16TileKernels& kernels_;
  std::shared_ptr<const WeightSource> source_;
  std::vector<float> bias_;
};

}  // namespace

std::unique_ptr<LinearOp<float>> make_bf16_tile_products(const Bf16TileKernels& kernels,
                                                         std::shared_ptr<const WeightSource> source,
                                                         std::vector<float> bias) {
  return std::make_unique<TileProducts>(kernels, std::move(source), std::move(bias));
}

}  // namespace nibble::quant
