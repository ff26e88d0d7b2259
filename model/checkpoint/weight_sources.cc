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
  PlainFloats plain_floats() const override { return {tensor_.data.data(), tensor_.dtype, stored_cols_}; }
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

class RowSetSource final : public WeightSource {
 public:
  RowSetSource(std::shared_ptr<const WeightSource> source, const RowSet& rows)
      : source_(std::move(source)), rows_(rows) {
    NIBBLE_REQUIRE(rows.run > 0 && (rows.count == 0 || rows.row(rows.count - 1) < source_->rows()), InvalidArgument,
                   "weight source: row {} of {}", rows.count == 0 ? 0 : rows.row(rows.count - 1), source_->rows());
  }

  std::size_t rows() const override { return rows_.count; }
  std::size_t cols() const override { return source_->cols(); }
  bool stored_transposed() const override { return source_->stored_transposed(); }
  void release() const override { source_->release(); }
  void check_intact() const override { source_->check_intact(); }
  PlainFloats plain_floats() const override {
    const PlainFloats whole = source_->plain_floats();
    if (whole.data == nullptr || !rows_.is_contiguous()) return {};
    const std::size_t elements = source_->stored_transposed() ? rows_.first : rows_.first * whole.stride;
    return {static_cast<const std::byte*>(whole.data) + elements * dtype_size(whole.dtype), whole.dtype, whole.stride};
  }

  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    check_range(begin, end, rows_.count);
    for_runs(begin, end, [&](std::size_t first, std::size_t count, std::size_t at) {
      source_->decode_rows(first, first + count, destination + at * cols());
    });
  }

  void decode_rows_transposed(std::size_t begin, std::size_t end, float* destination) const override {
    if (!stored_transposed()) return WeightSource::decode_rows_transposed(begin, end, destination);
    check_range(begin, end, rows_.count);
    const std::size_t width = end - begin;
    std::vector<float> columns;
    for_runs(begin, end, [&](std::size_t first, std::size_t count, std::size_t at) {
      if (count == width) return source_->decode_rows_transposed(first, first + count, destination);
      columns.resize(cols() * count);
      source_->decode_rows_transposed(first, first + count, columns.data());
      for (std::size_t i = 0; i < cols(); ++i)
        std::copy_n(columns.data() + i * count, count, destination + i * width + at);
    });
  }

 private:
  /// Calls action(first stored row, how many follow each other, row of the request where they go).
  template <class Action>
  void for_runs(std::size_t begin, std::size_t end, const Action& action) const {
    if (rows_.is_contiguous()) return action(rows_.first + begin, end - begin, std::size_t{0});
    for (std::size_t i = begin; i < end;) {
      const std::size_t count = std::min(end - i, rows_.run - i % rows_.run);
      action(rows_.row(i), count, i - begin);
      i += count;
    }
  }

  std::shared_ptr<const WeightSource> source_;
  RowSet rows_;
};

class ComposedSource final : public WeightSource {
 public:
  ComposedSource(std::vector<SourcePart> parts, std::size_t rows) : parts_(std::move(parts)), rows_(rows) {
    std::size_t count = 0;
    for (const auto& [source, set] : parts_) {
      const bool fits = set.run > 0 && set.stride > 0 && source->rows() == set.count &&
                        source->cols() == parts_.front().source->cols() &&
                        (set.count == 0 || set.row(set.count - 1) < rows);
      NIBBLE_REQUIRE(fits, InvalidArgument, "weight source: a part of {} rows of {} does not fit a matrix of {} rows",
                     source->rows(), source->cols(), rows);
      count += set.count;
    }
    NIBBLE_REQUIRE(!parts_.empty() && count == rows, InvalidArgument, "weight source: {} parts have {} rows, not {}",
                   parts_.size(), count, rows);
  }

  std::size_t rows() const override { return rows_; }
  std::size_t cols() const override { return parts_.front().source->cols(); }
  void release() const override {
    for (const SourcePart& part : parts_) part.source->release();
  }
  void check_intact() const override {
    for (const SourcePart& part : parts_) part.source->check_intact();
  }

  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    check_range(begin, end, rows_);
    for (const auto& [source, set] : parts_) {
      // Runs that end before `begin` are passed over; the first that may reach it is that of the stride it lies in.
      std::size_t i = begin <= set.first ? 0 : (begin - set.first) / set.stride * set.run;
      for (; i < set.count && set.row(i) < end; i += set.run) {
        const std::size_t at = set.row(i), past = std::min(end, at + std::min(set.run, set.count - i));
        const std::size_t from = std::max(begin, at);
        if (from < past) source->decode_rows(i + (from - at), i + (past - at), destination + (from - begin) * cols());
      }
    }
  }

 private:
  std::vector<SourcePart> parts_;
  std::size_t rows_;
};

}  // namespace

std::shared_ptr<const WeightSource> make_composed_source(std::vector<SourcePart> parts, std::size_t rows) {
  return std::make_shared<ComposedSource>(std::move(parts), rows);
}

std::shared_ptr<const WeightSource> make_mapped_source(std::shared_ptr<const Checkpoint> checkpoint, TensorView tensor,
                                                       bool transposed) {
  return std::make_shared<MappedSource>(std::move(checkpoint), std::move(tensor), transposed);
}

std::shared_ptr<const WeightSource> make_row_set_source(std::shared_ptr<const WeightSource> source,
                                                        const RowSet& rows) {
  return std::make_shared<RowSetSource>(std::move(source), rows);
}

}  // namespace nibble::model
