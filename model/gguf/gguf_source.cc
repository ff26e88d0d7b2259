#include "model/gguf/gguf_source.h"

#include "core/error.h"
#include "model/checkpoint/safetensors_file.h"

namespace nibble::model {
namespace {

std::string where(const GgufFile& file, const GgufTensor& tensor) {
  return fmt::format("tensor '{}' of '{}'", tensor.name, file.path().string());
}

/// Rows of one head, checked; 0 for no heads.
std::size_t rows_per_head(const GgufFile& file, const GgufTensor& tensor, std::size_t rows, std::size_t heads) {
  if (heads == 0) return 0;
  NIBBLE_REQUIRE(rows != 0 && rows % heads == 0 && rows / heads % 2 == 0, FormatError,
                 "{}: {} rows cannot be {} heads with an even number of rows each", where(file, tensor), rows, heads);
  return rows / heads;
}

class GgufSource final : public WeightSource {
 public:
  GgufSource(std::shared_ptr<const GgufFile> file, const GgufTensor& tensor, std::size_t heads)
      : file_(std::move(file)), tensor_(tensor), type_(block_type_info(tensor.type)) {
    check_decodable(type_, where(*file_, tensor_));
    rows_ = tensor_.rows();
    row_blocks_ = tensor_.cols() / type_.weights;
    rows_per_head_ = rows_per_head(*file_, tensor_, rows_, heads);
  }

  std::size_t rows() const override { return rows_; }
  std::size_t cols() const override { return tensor_.cols(); }
  void release() const override { file_->release(tensor_); }
  void check_intact() const override { file_->check_intact(tensor_); }

  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    NIBBLE_REQUIRE(begin <= end && end <= rows_, InvalidArgument, "weight source: rows [{}, {}) of {}", begin, end,
                   rows_);
    if (rows_per_head_ == 0) {
      decode(begin, end - begin, destination);
    } else {
      for (std::size_t row = begin; row < end; ++row)
        decode(interleaved_row(row, rows_per_head_), 1, destination + (row - begin) * cols());
    }
    check_intact();
  }

  PlainFloats plain_floats() const override {
    if (rows_per_head_ != 0) return {};
    switch (tensor_.type) {
      case BlockType::kF32:
        return {tensor_.data.data(), DType::kF32};
      case BlockType::kF16:
        return {tensor_.data.data(), DType::kF16};
      case BlockType::kBF16:
        return {tensor_.data.data(), DType::kBF16};
      default:
        return {};
    }
  }

 private:
  /// `count` rows as they are stored, from stored row `row`.
  void decode(std::size_t row, std::size_t count, float* destination) const {
    type_.decode(tensor_.data.data() + row * row_blocks_ * type_.bytes, count * row_blocks_, destination);
  }

  std::shared_ptr<const GgufFile> file_;
  GgufTensor tensor_;
  const BlockTypeInfo& type_;
  std::size_t rows_ = 0, row_blocks_ = 0, rows_per_head_ = 0;
};

}  // namespace

std::shared_ptr<const WeightSource> make_gguf_source(std::shared_ptr<const GgufFile> file, const GgufTensor& tensor,
                                                     std::size_t interleaved_heads) {
  return std::make_shared<GgufSource>(std::move(file), tensor, interleaved_heads);
}

std::vector<float> gguf_vector(const GgufFile& file, const GgufTensor& tensor, std::size_t size,
                               std::size_t interleaved_heads) {
  const BlockTypeInfo& type = block_type_info(tensor.type);
  NIBBLE_REQUIRE(tensor.shape.size() == 1 && tensor.shape[0] == size, FormatError, "{}: expected shape ({}), got {}",
                 where(file, tensor), size, shape_text(tensor.shape));
  check_decodable(type, where(file, tensor));
  const std::size_t per_head = rows_per_head(file, tensor, size, interleaved_heads);
  std::vector<float> stored(size);
  type.decode(tensor.data.data(), size / type.weights, stored.data());
  file.check_intact(tensor);
  if (per_head == 0) return stored;
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = stored[interleaved_row(i, per_head)];
  return values;
}

}  // namespace nibble::model
