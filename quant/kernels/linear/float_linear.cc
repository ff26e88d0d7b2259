#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "quant/kernels/exact/float_matvec.h"
#include "quant/kernels/int8/activations.h"
#include "quant/kernels/linear/packed_linear.h"
#include "quant/kernels/linear/token_groups.h"
#include "quant/kernels/packing/huge_buffer.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kVectorInputs = 16;

// A weight stored (in, out), turned over into (out, in), in the type it is stored as.
class TurnedSource final : public WeightSource {
 public:
  explicit TurnedSource(const WeightSource& stored)
      : rows_(stored.rows()), cols_(stored.cols()), dtype_(stored.plain_floats().dtype) {
    const std::size_t stride = stored.plain_floats().stride;
    values_ = HugeBuffer(rows_ * cols_ * dtype_size(dtype_));
    const auto* from = static_cast<const unsigned char*>(stored.plain_floats().data);
    parallel_for_tiles(rows_, kBlock, [&](std::size_t begin, std::size_t end) {
      dtype_size(dtype_) == 2 ? turn<std::uint16_t>(from, stride, begin, end)
                              : turn<std::uint32_t>(from, stride, begin, end);
    });
    stored.check_intact();
  }

  std::size_t rows() const override { return rows_; }
  std::size_t cols() const override { return cols_; }
  PlainFloats plain_floats() const override { return {values_.data(), dtype_, cols_}; }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    const std::size_t row_bytes = cols_ * dtype_size(dtype_);
    convert_to_f32(dtype_, reinterpret_cast<const std::byte*>(values_.data()) + begin * row_bytes,
                   (end - begin) * cols_, destination);
  }

 private:
  static constexpr std::size_t kBlock = 32;  // a cache line of the source's rows, a block of its columns

  template <class T>
  void turn(const unsigned char* from, std::size_t stride, std::size_t begin, std::size_t end) {
    for (std::size_t first = 0; first < cols_; first += kBlock)
      for (std::size_t row = begin; row < end; ++row)
        for (std::size_t col = first; col < std::min(cols_, first + kBlock); ++col)
          std::memcpy(values_.data() + (row * cols_ + col) * sizeof(T), from + (col * stride + row) * sizeof(T),
                      sizeof(T));
  }

  std::size_t rows_, cols_;
  DType dtype_;
  HugeBuffer values_;
};

FloatType type_of(DType dtype) {
  return dtype == DType::kF16 ? FloatType::kF16 : dtype == DType::kBF16 ? FloatType::kBF16 : FloatType::kF32;
}

class FloatLinear final : public LinearOp<float> {
 public:
  FloatLinear(std::shared_ptr<const WeightSource> source, std::vector<float> bias)
      : source_(source), bias_(bias), matrix_(std::move(source), std::move(bias)) {}

  std::size_t in_features() const override { return source_->cols(); }
  std::size_t out_features() const override { return source_->rows(); }
  void release() const override { source_->release(); }
  std::string kernel_name() const override {
    return fmt::format("{}_{}", dtype_name(source_->plain_floats().dtype), active_vectors_name());
  }

  std::uint64_t weight_bytes() const override {
    return std::uint64_t{in_features()} * out_features() * dtype_size(source_->plain_floats().dtype);
  }

  void forward(MatrixView<const float> x, MatrixView<float> y) const override {
    if (x.rows() > kMostMatvecTokens || x.cols() != in_features() || y.cols() != out_features() || x.rows() != y.rows())
      return matrix_.forward(x, y);  // which says what is wrong with the shapes
    multiply_vectors(x, y);
    source_->check_intact();
  }

  void backward_input(MatrixView<const float> dy, MatrixView<float> dx) const override {
    matrix_.backward_input(dy, dx);
  }

 private:
  void multiply_vectors(MatrixView<const float> x, MatrixView<float> y) const {
    const auto [data, dtype, stride] = source_->plain_floats();
    const std::size_t cols = in_features(), row_bytes = stride * dtype_size(dtype);
    const FloatType type = type_of(dtype);
    const auto* weight = static_cast<const unsigned char*>(data);
    thread_local Activations activations;
    Activations& arranged = activations;  // the calling thread's, for all threads
    arrange_activations(x, (cols + kVectorInputs - 1) / kVectorInputs * kVectorInputs, false, false, arranged);
    parallel_for_tiles(out_features(), run_length(out_features(), row_bytes), [&](std::size_t begin, std::size_t end) {
      for_token_groups(x.rows(), [&](std::size_t token, std::size_t tokens) {
        FloatMatvecArgs args{};
        args.weight = weight + begin * row_bytes;
        args.rows = end - begin;
        args.cols = cols;
        args.x = arranged.values.data() + token * arranged.stride;
        args.x_stride = arranged.stride;
        args.y = y.data() + token * y.stride() + begin;
        args.y_stride = y.stride();
        select_float_matvec(type, tokens)(args);
        for (std::size_t t = token; t < token + tokens && !bias_.empty(); ++t)
          for (std::size_t row = begin; row < end; ++row) y(t, row) += bias_[row];
      });
    });
  }

  std::shared_ptr<const WeightSource> source_;
  std::vector<float> bias_;
  DecodingLinear matrix_;
};

}  // namespace

std::unique_ptr<LinearOp<float>> make_float_linear(std::shared_ptr<const WeightSource> source, std::vector<float> bias,
                                                   Compute compute) {
  std::unique_ptr<LinearOp<float>> exact;
  if (source->plain_floats().data == nullptr) {
    exact = std::make_unique<DecodingLinear>(source, bias);
  } else {
    if (source->stored_transposed()) {
      auto turned = std::make_shared<TurnedSource>(*source);
      source->release();
      source = std::move(turned);
    }
    exact = std::make_unique<FloatLinear>(source, bias);
  }
  if (compute != Compute::kBf16) return exact;
  return make_bf16_linear(std::move(exact), std::move(source), std::move(bias));
}

}  // namespace nibble::quant
