#include "quant/kernels/bf16/bf16_products.h"

#include <algorithm>
#include <cstdint>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/bf16_gemm.h"
#include "core/matrix/dtype.h"
#include "core/matrix/linear_checks.h"
#include "quant/kernels/bf16/bf16_tile_products.h"

namespace nibble::quant {
namespace {

template <class T>
T* scratch(std::size_t size) {
  thread_local std::vector<T> buffer;  // kept, because new pages cost
  if (buffer.size() < size) buffer.resize(size);
  return buffer.data();
}

// The rows of another source, rounded to bfloat16 and kept as floats.
class RoundedSource final : public WeightSource {
 public:
  explicit RoundedSource(std::shared_ptr<const WeightSource> source) : source_(std::move(source)) {}
  std::size_t rows() const override { return source_->rows(); }
  std::size_t cols() const override { return source_->cols(); }
  bool stored_transposed() const override { return source_->stored_transposed(); }
  void release() const override { source_->release(); }
  void check_intact() const override { source_->check_intact(); }

  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    source_->decode_rows(begin, end, destination);
    round_to_bf16({destination, (end - begin) * cols()}, destination);
  }
  void decode_rows_transposed(std::size_t begin, std::size_t end, float* destination) const override {
    source_->decode_rows_transposed(begin, end, destination);
    round_to_bf16({destination, (end - begin) * cols()}, destination);
  }

 private:
  std::shared_ptr<const WeightSource> source_;
};

class Bf16Products : public LinearOp<float> {
 public:
  std::string kernel_name() const final { return "gemm_bf16"; }
  void backward_input(MatrixView<const float>, MatrixView<float>) const final {
    throw InvalidArgument("bf16 products: gradients are of exact products");
  }
};

class ProductsOfRoundedFloats final : public Bf16Products {
 public:
  ProductsOfRoundedFloats(std::shared_ptr<const WeightSource> source, std::vector<float> bias)
      : matrix_(std::make_shared<RoundedSource>(std::move(source)), std::move(bias)) {}
  std::size_t in_features() const override { return matrix_.in_features(); }
  std::size_t out_features() const override { return matrix_.out_features(); }
  void release() const override { matrix_.release(); }

  void forward(MatrixView<const float> x, MatrixView<float> y) const override {
    const MatrixView<float> rounded(scratch<float>(x.rows() * x.cols()), x.rows(), x.cols());
    parallel_for(x.rows(), [&](std::size_t t) { round_to_bf16(x.row(t), rounded.row(t).data()); });
    matrix_.forward(rounded, y);
  }

 private:
  DecodingLinear matrix_;
};

class ProductsOfBits final : public Bf16Products {
 public:
  ProductsOfBits(std::shared_ptr<const WeightSource> source, std::vector<float> bias)
      : source_(std::move(source)), bias_(std::move(bias)) {
    check_linear_bias(bias_.size(), source_->rows());
  }
  std::size_t in_features() const override { return source_->cols(); }
  std::size_t out_features() const override { return source_->rows(); }
  void release() const override { source_->release(); }

  void forward(MatrixView<const float> x, MatrixView<float> y) const override {
    const std::size_t in = in_features(), out = out_features();
    check_linear_shapes(out, in, x, y);
    const std::size_t padded = divide_up(x.rows(), kTokenStep) * kTokenStep;
    const MatrixView<std::uint16_t> x_bits(scratch<std::uint16_t>(padded * in), padded, in);
    parallel_for(padded, [&](std::size_t t) {
      std::uint16_t* bits = x_bits.row(t).data();
      t < x.rows() ? convert_to_bf16(x.row(t), bits) : static_cast<void>(std::fill_n(bits, in, std::uint16_t{0}));
    });
    parallel_for_tiles(out, row_tile(), [&](std::size_t begin, std::size_t end) {
      thread_local std::vector<std::uint16_t> w_bits;  // beside X of the calling thread
      if (w_bits.size() < (end - begin) * in) w_bits.resize((end - begin) * in);
      multiply(x_bits, begin, end, w_bits.data(), y.cols_slice(begin, end - begin));
    });
  }

 private:
  // The library compiles a kernel for each number of tokens that it has not met, so that these few are all there are:
  // a product takes this many at most, and its last tokens are filled up with zeros to a multiple of the step.
  static constexpr std::size_t kTokenTile = 512, kTokenStep = 64;

  // Rows of W that one product takes: many, for the library copies X anew for each, but enough tiles to share out.
  std::size_t row_tile() const {
    constexpr std::size_t kNarrow = 128, kWide = 512, kBytes = 4u << 20, kEnoughTiles = 8;
    const bool wide = divide_up(out_features(), kWide) >= kEnoughTiles && kWide * in_features() * 2 <= kBytes;
    return wide ? kWide : kNarrow;
  }

  void multiply(MatrixView<const std::uint16_t> x, std::size_t begin, std::size_t end, std::uint16_t* bits,
                MatrixView<float> y) const {
    const std::size_t in = in_features(), rows = end - begin;
    if (source_->stored_transposed()) {
      float* weight = scratch<float>(rows * in);
      source_->decode_rows_transposed(begin, end, weight);
      convert_to_bf16({weight, rows * in}, bits);
      multiply_tokens(Transpose::kNo, x, {bits, in, rows}, y);
    } else {
      constexpr std::size_t kRowsAtATime = 8;  // what is decoded stays in the nearest caches
      float* weight = scratch<float>(kRowsAtATime * in);
      for (std::size_t row = begin; row < end; row += kRowsAtATime) {
        const std::size_t count = std::min(kRowsAtATime, end - row);
        source_->decode_rows(row, row + count, weight);
        convert_to_bf16({weight, count * in}, bits + (row - begin) * in);
      }
      multiply_tokens(Transpose::kYes, x, {bits, rows, in}, y);
    }
    if (bias_.empty()) return;
    for (std::size_t t = 0; t < y.rows(); ++t)
      for (std::size_t r = 0; r < rows; ++r) y(t, r) += bias_[begin + r];
  }

  // X has as many rows as Y, and those that fill it up.
  static void multiply_tokens(Transpose transpose, MatrixView<const std::uint16_t> x, MatrixView<const std::uint16_t> w,
                              MatrixView<float> y) {
    for (std::size_t token = 0; token < x.rows(); token += kTokenTile) {
      const std::size_t tokens = std::min(kTokenTile, x.rows() - token), wanted = std::min(tokens, y.rows() - token);
      const auto tile = y.rows_slice(token, wanted);
      if (wanted == tokens) {
        bf16_gemm(transpose, x.rows_slice(token, tokens), w, tile);
        continue;
      }
      const MatrixView<float> filled(scratch<float>(tokens * y.cols()), tokens, y.cols());  // W's floats are bits now
      bf16_gemm(transpose, x.rows_slice(token, tokens), w, filled);
      for (std::size_t t = 0; t < wanted; ++t) std::copy_n(filled.row(t).data(), y.cols(), tile.row(t).data());
    }
  }

  std::shared_ptr<const WeightSource> source_;
  std::vector<float> bias_;
};

}  // namespace

std::unique_ptr<LinearOp<float>> make_bf16_products(std::shared_ptr<const WeightSource> source,
                                                    std::vector<float> bias) {
  if (const Bf16TileKernels* tiles = active_bf16_tiles(); tiles != nullptr)
    return make_bf16_tile_products(*tiles, std::move(source), std::move(bias));
  if (has_fast_bf16()) return std::make_unique<ProductsOfBits>(std::move(source), std::move(bias));
  return std::make_unique<ProductsOfRoundedFloats>(std::move(source), std::move(bias));
}

}  // namespace nibble::quant
