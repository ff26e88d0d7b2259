#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/matrix/dtype.h"
#include "core/matrix/matrix_view.h"

namespace nibble {

/// A linear layer as the transformer sees it: Y = X Wᵀ + b, whatever W is stored as.
///
/// Shapes   W (out, in), b (out), X (tokens, in), Y (tokens, out).
/// Threads  const calls may run concurrently; each uses the thread pool.
template <class T>
class LinearOp {
 public:
  virtual ~LinearOp() = default;
  virtual std::size_t in_features() const = 0;
  virtual std::size_t out_features() const = 0;
  /// Y = X Wᵀ + b. Throws InvalidArgument when the shapes do not fit.
  virtual void forward(MatrixView<const T> x, MatrixView<T> y) const = 0;
  /// dX = dY W: the gradient with respect to the input.
  virtual void backward_input(MatrixView<const T> dy, MatrixView<T> dx) const = 0;
  /// Tells that the weights will not be needed for a while: mapped pages may go. The next call reads them again.
  virtual void release() const {}
  /// What does the multiplying, for records of speed.
  virtual std::string kernel_name() const { return "gemm"; }
  /// Bytes of weights that a product with one token reads, as they lie in memory; 0 where nobody knows.
  virtual std::uint64_t weight_bytes() const { return 0; }
};

/// Where the rows of a weight come from: decodes stored rows to float on demand. Implemented per storage format.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual std::size_t rows() const = 0;  ///< out
  virtual std::size_t cols() const = 0;  ///< in
  /// Writes rows [begin, end) of W (out, in), row-major, into `destination` (end - begin, in). Thread-safe.
  virtual void decode_rows(std::size_t begin, std::size_t end, float* destination) const = 0;
  /// True when the storage is (in, out), so that decode_rows_transposed() is the cheap way (GPT-2's Conv1D).
  virtual bool stored_transposed() const { return false; }
  /// Writes the same rows as columns: `destination` (in, end - begin), row-major. Only called if stored_transposed().
  virtual void decode_rows_transposed(std::size_t begin, std::size_t end, float* destination) const;
  virtual void release() const {}
  /// So many rows, from a multiple of it on, are decoded together: parts of them cost as much as all.
  virtual std::size_t rows_together() const { return 1; }
  /// The whole storage where it lies, row-major (out, in), or (in, out) if stored_transposed(), when it is plain floats
  /// that the processor can read; otherwise `data` is null. Call check_intact() after reading and before using.
  struct PlainFloats {
    const void* data = nullptr;
    DType dtype = DType::kF32;
    std::size_t stride = 0;  ///< elements from one stored row to the next
  };
  virtual PlainFloats plain_floats() const { return {}; }
  /// Throws FormatError when values read so far may be wrong: a mapped file shrank. decode_rows() does it by itself.
  virtual void check_intact() const {}
};

/// Y = X Wᵀ + b over any WeightSource: tiles of rows are decoded to float in a per-thread buffer and multiplied with
/// the GEMM door. The weights never exist as a whole float copy. Exact in the sense that W is just what the source
/// decodes. Cost of decoding: one pass over W per 256 tokens, one per call backwards. Memory: at most 8 MB per
/// thread, backwards 32 MB, or one block of 128 (256) rows where that is more.
class DecodingLinear final : public LinearOp<float> {
 public:
  /// `bias` is empty or has source->rows() entries; throws InvalidArgument otherwise.
  DecodingLinear(std::shared_ptr<const WeightSource> source, std::vector<float> bias);
  std::size_t in_features() const override { return source_->cols(); }
  std::size_t out_features() const override { return source_->rows(); }
  void forward(MatrixView<const float> x, MatrixView<float> y) const override;
  void backward_input(MatrixView<const float> dy, MatrixView<float> dx) const override;
  void release() const override { source_->release(); }

 private:
  std::shared_ptr<const WeightSource> source_;
  std::vector<float> bias_;
};

/// Bytes that each thread which multiplies with a DecodingLinear of `in` inputs keeps for rows that it decoded, at
/// most.
std::uint64_t decoded_bytes_per_thread(std::size_t in);

/// Y = X Wᵀ + b over a dense matrix in memory, in any scalar: for tests, checks in double and toys.
template <class T>
class DenseLinear final : public LinearOp<T> {
 public:
  /// W (out, in); `bias` empty or (out). Throws InvalidArgument otherwise.
  DenseLinear(Matrix<T> weight, std::vector<T> bias);
  std::size_t in_features() const override { return weight_.cols(); }
  std::size_t out_features() const override { return weight_.rows(); }
  void forward(MatrixView<const T> x, MatrixView<T> y) const override;
  void backward_input(MatrixView<const T> dy, MatrixView<T> dx) const override;
  Matrix<T>& weight() { return weight_; }

 private:
  Matrix<T> weight_;
  std::vector<T> bias_;
};

}  // namespace nibble
