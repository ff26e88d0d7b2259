#include "model/gguf/gguf_source.h"

#include "core/error.h"
#include "model/checkpoint/safetensors_file.h"

namespace nibble::model {
namespace {

std::string where(const GgufFile& file, const GgufTensor& tensor) {
  return fmt::format("tensor '{}' of '{}'", tensor.name, file.path().string());
}

/// `rows` of a tensor that has `total`, checked.
struct Range {
  std::size_t first = 0, count = 0;
  std::size_t per_head = 0;  ///< rows of a head; 0 where nothing was moved

  Range(const GgufFile& file, const GgufTensor& tensor, std::size_t total, const GgufRows& rows) : first(rows.first) {
    NIBBLE_REQUIRE(first <= total && rows.count.value_or(0) <= total - first, FormatError,
                   "{}: {} rows from {} are asked for, it has {}", where(file, tensor),
                   rows.count ? fmt::to_string(*rows.count) : "all", first, total);
    count = rows.count.value_or(total - first);
    const std::size_t heads = rows.interleaved_heads;
    if (heads == 0) return;
    NIBBLE_REQUIRE(count != 0 && count % heads == 0 && count / heads % 2 == 0, FormatError,
                   "{}: {} rows cannot be {} heads with an even number of rows each", where(file, tensor), count,
                   heads);
    per_head = count / heads;
  }
};

class GgufSource final : public WeightSource {
 public:
  GgufSource(std::shared_ptr<const GgufFile> file, const GgufTensor& tensor, const GgufRows& rows)
      : file_(std::move(file)),
        tensor_(tensor),
        type_(block_type_info(tensor.type)),
        range_(*file_, tensor_, tensor_.rows(), rows) {
    check_decodable(type_, where(*file_, tensor_));
    row_blocks_ = tensor_.cols() / type_.weights;
  }

  std::size_t rows() const override { return range_.count; }
  std::size_t cols() const override { return tensor_.cols(); }
  void release() const override { file_->release(tensor_); }
  void check_intact() const override { file_->check_intact(tensor_); }

  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    NIBBLE_REQUIRE(begin <= end && end <= range_.count, InvalidArgument, "weight source: rows [{}, {}) of {}", begin,
                   end, range_.count);
    if (range_.per_head == 0) {
      decode(begin, end - begin, destination);
    } else {
      for (std::size_t row = begin; row < end; ++row)
        decode(interleaved_row(row, range_.per_head), 1, destination + (row - begin) * cols());
    }
    check_intact();
  }

  PlainFloats plain_floats() const override {
    if (range_.per_head != 0) return {};
    const std::byte* const data = tensor_.data.data() + range_.first * row_blocks_ * type_.bytes;
    switch (tensor_.type) {
      case BlockType::kF32:
        return {data, DType::kF32, cols()};
      case BlockType::kF16:
        return {data, DType::kF16, cols()};
      case BlockType::kBF16:
        return {data, DType::kBF16, cols()};
      default:
        return {};
    }
  }

 private:
  /// `count` rows as they are stored, from row `row` of the range.
  void decode(std::size_t row, std::size_t count, float* destination) const {
    type_.decode(tensor_.data.data() + (range_.first + row) * row_blocks_ * type_.bytes, count * row_blocks_,
                 destination);
  }

  std::shared_ptr<const GgufFile> file_;
  GgufTensor tensor_;
  const BlockTypeInfo& type_;
  Range range_;
  std::size_t row_blocks_ = 0;
};

}  // namespace

std::shared_ptr<const WeightSource> make_gguf_source(std::shared_ptr<const GgufFile> file, const GgufTensor& tensor,
                                                     const GgufRows& rows) {
  return std::make_shared<GgufSource>(std::move(file), tensor, rows);
}

std::vector<float> gguf_vector(const GgufFile& file, const GgufTensor& tensor, const GgufRows& rows) {
  const BlockTypeInfo& type = block_type_info(tensor.type);
  check_decodable(type, where(file, tensor));
  const Range range(file, tensor, tensor.element_count(), rows);
  std::vector<float> stored(tensor.element_count());
  type.decode(tensor.data.data(), stored.size() / type.weights, stored.data());
  file.check_intact(tensor);
  std::vector<float> values(range.count);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = stored[range.first + (range.per_head == 0 ? i : interleaved_row(i, range.per_head))];
  return values;
}

}  // namespace nibble::model
