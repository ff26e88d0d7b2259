#pragma once

#include <cassert>
#include <cstddef>
#include <span>
#include <type_traits>

#include "core/machine/large_buffer.h"

namespace nibble {

/// A row-major matrix that somebody else owns: element (r, c) is data[r * stride + c], stride >= cols.
template <class T>
class MatrixView {
 public:
  MatrixView() = default;
  MatrixView(T* data, std::size_t rows, std::size_t cols) : MatrixView(data, rows, cols, cols) {}
  MatrixView(T* data, std::size_t rows, std::size_t cols, std::size_t stride)
      : data_(data), rows_(rows), cols_(cols), stride_(stride) {
    assert(stride >= cols);
  }
  /// A view of T converts to a view of const T.
  template <class U>
  requires(std::is_same_v<const U, T>) MatrixView(MatrixView<U> other)
      : MatrixView(other.data(), other.rows(), other.cols(), other.stride()) {}

  T* data() const { return data_; }
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::size_t stride() const { return stride_; }
  bool empty() const { return rows_ == 0 || cols_ == 0; }

  T& operator()(std::size_t r, std::size_t c) const {
    assert(r < rows_ && c < cols_);
    return data_[r * stride_ + c];
  }
  std::span<T> row(std::size_t r) const {
    assert(r < rows_);
    return {data_ + r * stride_, cols_};
  }
  MatrixView rows_slice(std::size_t begin, std::size_t count) const { return block(begin, 0, count, cols_); }
  MatrixView cols_slice(std::size_t begin, std::size_t count) const { return block(0, begin, rows_, count); }
  MatrixView block(std::size_t r, std::size_t c, std::size_t rows, std::size_t cols) const {
    assert(r + rows <= rows_ && c + cols <= cols_);
    return {data_ + r * stride_ + c, rows, cols, stride_};
  }

 private:
  T* data_ = nullptr;
  std::size_t rows_ = 0, cols_ = 0, stride_ = 0;
};

/// A row-major matrix that owns its elements (value-initialised); where they lie, ScratchMemory says.
template <class T>
class Matrix {
 public:
  Matrix() = default;
  Matrix(std::size_t rows, std::size_t cols) : rows_(rows), cols_(cols), data_(rows * cols) {}

  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::size_t size() const { return data_.size(); }
  T* data() { return data_.data(); }
  const T* data() const { return data_.data(); }
  std::span<T> values() { return data_; }
  std::span<const T> values() const { return data_; }
  T& operator()(std::size_t r, std::size_t c) { return data_[r * cols_ + c]; }
  const T& operator()(std::size_t r, std::size_t c) const { return data_[r * cols_ + c]; }
  std::span<T> row(std::size_t r) { return {data_.data() + r * cols_, cols_}; }
  std::span<const T> row(std::size_t r) const { return {data_.data() + r * cols_, cols_}; }
  MatrixView<T> view() { return {data_.data(), rows_, cols_}; }
  MatrixView<const T> view() const { return {data_.data(), rows_, cols_}; }
  operator MatrixView<T>() { return view(); }              // NOLINT(google-explicit-constructor)
  operator MatrixView<const T>() const { return view(); }  // NOLINT(google-explicit-constructor)

 private:
  std::size_t rows_ = 0, cols_ = 0;
  LargeVector<T> data_;
};

}  // namespace nibble
