#include <algorithm>
#include <utility>

#include "core/error.h"
#include "model/checkpoint/safetensors_file.h"
#include "model/checkpoint/weights.h"

namespace nibble::model {
namespace {

void check_range(std::size_t begin, std::size_t end, std::size_t rows) {
  NIBBLE_REQUIRE(begin <= end && end <= rows, InvalidArgument, "weight source: rows [{}, {}) of {}", begin, end, rows);
}

class MappedSource final : public WeightSource {
 public:
  MappedSource(std::shared_ptr<const Checkpoint> checkpoint, TensorView tensor, bool transposed)
      : checkpoint_(std::move(checkpoint)), tensor_(std::move(tensor)), transposed_(transposed) {
    NIBBLE_REQUIRE(tensor_.shape.size() == 2 && is_float(tensor_.dtype), FormatError,
                   "tensor '{}' of checkpoint '{}': expected a matrix of F32, F16 or BF16, got {} {}", tensor_.name,
                   checkpoint_->directory().string(), shape_text(tensor_.shape), dtype_name(tensor_.dtype));
    stored_cols_ = tensor_.shape[1];
    element_ = dtype_size(tensor_.dtype);
  }

  std::size_t rows() const override { return tensor_.shape[transposed_ ? 1 : 0]; }
  std::size_t cols() const override { return tensor_.shape[transposed_ ? 0 : 1]; }
  bool stored_transposed() const override { return transposed_; }
  void release() const override { checkpoint_->release(tensor_); }
  PlainFloats plain_floats() const override { return {tensor_.data.data(), tensor_.dtype}; }
  void check_intact() const override { checkpoint_->check_intact(tensor_); }

  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    check_range(begin, end, rows());
    if (transposed_) {
      transpose_columns(begin, end, destination);
    } else {
      convert(begin, 0, (end - begin) * stored_cols_, destination);
    }
    checkpoint_->check_intact(tensor_);
  }

  void decode_rows_transposed(std::size_t begin, std::size_t end, float* destination) const override {
    if (!transposed_) return WeightSource::decode_rows_transposed(begin, end, destination);
    check_range(begin, end, rows());
    const std::size_t width = end - begin;
    for (std::size_t i = 0; i < cols(); ++i) convert(i, begin, width, destination + i * width);
    checkpoint_->check_intact(tensor_);
  }

 private:
  /// `count` elements from (row, col) of the matrix as it is stored.
  void convert(std::size_t row, std::size_t col, std::size_t count, float* destination) const {
    convert_to_f32(tensor_.dtype, tensor_.data.data() + (row * stored_cols_ + col) * element_, count, destination);
  }

  /// Columns [begin, end) of the stored matrix as rows, by blocks that fit the first-level cache.
  void transpose_columns(std::size_t begin, std::size_t end, float* destination) const {
    constexpr std::size_t kBlock = 64;
    float block[kBlock * kBlock];
    const std::size_t in = cols();
    for (std::size_t i0 = 0; i0 < in; i0 += kBlock) {
      const std::size_t depth = std::min(kBlock, in - i0);
      for (std::size_t r0 = begin; r0 < end; r0 += kBlock) {
        const std::size_t width = std::min(kBlock, end - r0);
        for (std::size_t i = 0; i < depth; ++i) convert(i0 + i, r0, width, block + i * kBlock);
        for (std::size_t r = 0; r < width; ++r) {
          float* row = destination + (r0 - begin + r) * in + i0;
          for (std::size_t i = 0; i < depth; ++i) row[i] = block[i * kBlock + r];
        }
      }
    }
  }

  std::shared_ptr<const Checkpoint> checkpoint_;
  TensorView tensor_;
  bool transposed_;
  std::size_t stored_cols_ = 0, element_ = 0;
};

class StackedSource final : public WeightSource {
 public:
  explicit StackedSource(std::vector<std::shared_ptr<const WeightSource>> parts) : parts_(std::move(parts)) {
    NIBBLE_REQUIRE(!parts_.empty(), InvalidArgument, "stacked source: no parts");
    for (const auto& part : parts_) {
      NIBBLE_REQUIRE(part->cols() == cols(), InvalidArgument, "stacked source: parts with {} and {} columns", cols(),
                     part->cols());
      starts_.push_back(rows_);
      rows_ += part->rows();
      transposed_ = transposed_ && part->stored_transposed();
    }
  }

  std::size_t rows() const override { return rows_; }
  std::size_t cols() const override { return parts_.front()->cols(); }
  bool stored_transposed() const override { return transposed_; }
  void release() const override {
    for (const auto& part : parts_) part->release();
  }

  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    check_range(begin, end, rows_);
    for_parts(begin, end, [&](const WeightSource& part, std::size_t first, std::size_t last, std::size_t offset) {
      part.decode_rows(first, last, destination + offset * cols());
    });
  }

  void decode_rows_transposed(std::size_t begin, std::size_t end, float* destination) const override {
    if (!transposed_) return WeightSource::decode_rows_transposed(begin, end, destination);
    check_range(begin, end, rows_);
    const std::size_t width = end - begin;
    for_parts(begin, end, [&](const WeightSource& part, std::size_t first, std::size_t last, std::size_t offset) {
      const std::size_t part_width = last - first;
      if (part_width == width) return part.decode_rows_transposed(first, last, destination);
      std::vector<float> columns(cols() * part_width);
      part.decode_rows_transposed(first, last, columns.data());
      for (std::size_t i = 0; i < cols(); ++i)
        std::copy_n(columns.data() + i * part_width, part_width, destination + i * width + offset);
    });
  }

 private:
  /// Calls action(part, first row in it, last, row of the request where they go) for the parts that [begin, end)
  /// touches.
  template <class Action>
  void for_parts(std::size_t begin, std::size_t end, const Action& action) const {
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const std::size_t first = std::max(begin, starts_[p]);
      const std::size_t last = std::min(end, starts_[p] + parts_[p]->rows());
      if (first < last) action(*parts_[p], first - starts_[p], last - starts_[p], first - begin);
    }
  }

  std::vector<std::shared_ptr<const WeightSource>> parts_;
  std::vector<std::size_t> starts_;
  std::size_t rows_ = 0;
  bool transposed_ = true;
};

class RowSliceSource final : public WeightSource {
 public:
  RowSliceSource(std::shared_ptr<const WeightSource> source, std::size_t begin, std::size_t end)
      : source_(std::move(source)), begin_(begin), rows_(end - begin) {
    check_range(begin, end, source_->rows());
  }

  std::size_t rows() const override { return rows_; }
  std::size_t cols() const override { return source_->cols(); }
  bool stored_transposed() const override { return source_->stored_transposed(); }
  void release() const override { source_->release(); }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    check_range(begin, end, rows_);
    source_->decode_rows(begin_ + begin, begin_ + end, destination);
  }
  void decode_rows_transposed(std::size_t begin, std::size_t end, float* destination) const override {
    check_range(begin, end, rows_);
    source_->decode_rows_transposed(begin_ + begin, begin_ + end, destination);
  }

 private:
  std::shared_ptr<const WeightSource> source_;
  std::size_t begin_, rows_;
};

}  // namespace

std::shared_ptr<const WeightSource> make_mapped_source(std::shared_ptr<const Checkpoint> checkpoint, TensorView tensor,
                                                       bool transposed) {
  return std::make_shared<MappedSource>(std::move(checkpoint), std::move(tensor), transposed);
}

std::shared_ptr<const WeightSource> make_stacked_source(std::vector<std::shared_ptr<const WeightSource>> parts) {
  return std::make_shared<StackedSource>(std::move(parts));
}

std::shared_ptr<const WeightSource> make_row_slice_source(std::shared_ptr<const WeightSource> source, std::size_t begin,
                                                          std::size_t end) {
  return std::make_shared<RowSliceSource>(std::move(source), begin, end);
}

}  // namespace nibble::model
