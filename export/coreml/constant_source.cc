#include "export/coreml/constant_source.h"

#include <vector>

#include "core/error.h"
#include "core/matrix/dtype.h"
#include "export/coreml/bit_stream.h"

namespace nibble::coreml {
namespace {

using Bytes = std::span<const std::byte>;

Bytes bytes_of(const Value& value, const BlobFile& weights) {
  if (const auto* blob = std::get_if<BlobReference>(&value.data)) return weights.find(value.type, blob->offset);
  const auto* raw = std::get_if<RawBytes>(&value.data);
  NIBBLE_REQUIRE(raw != nullptr, FormatError, "a constant of {} has no packed bytes", type_text(value.type));
  return std::as_bytes(std::span(raw->bytes));
}

const Value* operand(const Operation& operation, const char* name) {
  const auto found = operation.inputs.find(name);
  if (found == operation.inputs.end()) return nullptr;
  const Value* value = found->second.size() == 1 ? std::get_if<Value>(&found->second.front()) : nullptr;
  NIBBLE_REQUIRE(value != nullptr, FormatError, "{}: operand '{}' must be written in place", operation.type, name);
  return value;
}

const Value& required(const Operation& operation, const char* name) {
  const Value* value = operand(operation, name);
  NIBBLE_REQUIRE(value != nullptr, FormatError, "{}: operand '{}' is missing", operation.type, name);
  return *value;
}

void require_matrix(const TensorType& type) {
  NIBBLE_REQUIRE(type.shape.size() == 2 && type.shape[0] > 0 && type.shape[1] > 0, FormatError,
                 "expected a matrix, got a constant of {}", type_text(type));
}

class PlainMatrix final : public WeightSource {
 public:
  PlainMatrix(const Value& value, const BlobFile& weights)
      : rows_(0), cols_(0), bytes_(bytes_of(value, weights)), weights_(weights) {
    require_matrix(value.type);
    NIBBLE_REQUIRE(value.type.type == DataType::kFloat16, FormatError, "expected float16, got {}",
                   type_text(value.type));
    rows_ = value.type.shape[0], cols_ = value.type.shape[1];
  }
  std::size_t rows() const override { return rows_; }
  std::size_t cols() const override { return cols_; }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    convert_to_f32(DType::kF16, bytes_.data() + begin * cols_ * 2, (end - begin) * cols_, destination);
    weights_.check_intact();
  }
  void release() const override { weights_.release(bytes_); }

 private:
  std::size_t rows_, cols_;
  Bytes bytes_;
  const BlobFile& weights_;
};

class LookedUpMatrix final : public WeightSource {
 public:
  LookedUpMatrix(const Operation& operation, const BlobFile& weights) : weights_(weights) {
    const Value &indices = required(operation, "indices"), &lut = required(operation, "lut");
    require_matrix(indices.type);
    const auto& tables = lut.type.shape;
    bits_ = data_type_bits(indices.type.type);
    const bool fits = lut.type.type == DataType::kFloat16 && tables.size() == 4 && bits_ >= 1 && bits_ <= 8 &&
                      tables[2] == std::uint64_t{1} << bits_ && tables[3] > 0 && tables[0] > 0 && tables[1] > 0 &&
                      indices.type.shape[0] % tables[0] == 0 && indices.type.shape[1] % tables[1] == 0;
    NIBBLE_REQUIRE(fits, FormatError, "tables of {} for indices of {}", type_text(lut.type), type_text(indices.type));
    rows_ = indices.type.shape[0], codes_ = indices.type.shape[1], length_ = tables[3];
    rows_each_ = rows_ / tables[0], codes_each_ = codes_ / tables[1], across_ = tables[1];
    const Value* axis = operand(operation, "vector_axis");
    NIBBLE_REQUIRE((length_ > 1) == (axis != nullptr) &&
                       (axis == nullptr || axis->data == Value{{}, std::vector<std::int32_t>{1}}.data),
                   FormatError, "vectors of {} must run along axis 1", length_);
    code_bytes_ = bytes_of(indices, weights);
    table_bytes_ = bytes_of(lut, weights);
  }
  std::size_t rows() const override { return rows_; }
  std::size_t cols() const override { return codes_ * length_; }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    const std::size_t size = (std::size_t{1} << bits_) * length_;
    std::vector<float> table(size);
    std::size_t loaded = static_cast<std::size_t>(-1);
    for (std::size_t r = begin; r < end; ++r)
      for (std::size_t group = 0; group < across_; ++group) {
        const std::size_t wanted = r / rows_each_ * across_ + group;
        if (wanted != loaded) convert_to_f32(DType::kF16, table_bytes_.data() + wanted * size * 2, size, table.data());
        loaded = wanted;
        for (std::size_t c = group * codes_each_; c < (group + 1) * codes_each_; ++c) {
          const float* entry = table.data() + code_at(code_bytes_, r * codes_ + c, bits_) * length_;
          for (std::size_t j = 0; j < length_; ++j) *destination++ = entry[j];
        }
      }
    weights_.check_intact();
  }
  void release() const override { weights_.release(code_bytes_), weights_.release(table_bytes_); }

 private:
  std::size_t rows_ = 0, codes_ = 0, length_ = 0, rows_each_ = 0, codes_each_ = 0, across_ = 0;
  unsigned bits_ = 0;
  Bytes code_bytes_, table_bytes_;
  const BlobFile& weights_;
};

class ScaledMatrix final : public WeightSource {
 public:
  ScaledMatrix(const Operation& operation, const BlobFile& weights) : weights_(weights) {
    const Value &data = required(operation, "data"), &scale = required(operation, "scale");
    const Value* offset = operand(operation, "offset");
    require_matrix(data.type);
    require_matrix(scale.type);
    const DataType type = data.type.type;
    signed_ = type == DataType::kInt4 || type == DataType::kInt8;
    const bool integers = signed_ || type == DataType::kUInt4 || type == DataType::kUInt8;
    rows_ = data.type.shape[0], cols_ = data.type.shape[1];
    const bool fits = integers && scale.type.type == DataType::kFloat16 && rows_ % scale.type.shape[0] == 0 &&
                      cols_ % scale.type.shape[1] == 0 &&
                      (offset == nullptr || offset->type == TensorType{type, scale.type.shape});
    NIBBLE_REQUIRE(fits, FormatError, "data of {} with scales of {}", type_text(data.type), type_text(scale.type));
    bits_ = data_type_bits(type);
    rows_each_ = rows_ / scale.type.shape[0], cols_each_ = cols_ / scale.type.shape[1], across_ = scale.type.shape[1];
    data_ = bytes_of(data, weights);
    scales_ = bytes_of(scale, weights);
    if (offset != nullptr) offsets_ = bytes_of(*offset, weights);
  }
  std::size_t rows() const override { return rows_; }
  std::size_t cols() const override { return cols_; }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    for (std::size_t r = begin; r < end; ++r)
      for (std::size_t block = 0; block < across_; ++block) {
        const std::size_t at = r / rows_each_ * across_ + block;
        float scale = 0.0f;
        convert_to_f32(DType::kF16, scales_.data() + 2 * at, 1, &scale);
        const int offset = offsets_.empty() ? 0 : integer(offsets_, at);
        for (std::size_t c = block * cols_each_; c < (block + 1) * cols_each_; ++c)
          *destination++ = scale * static_cast<float>(integer(data_, r * cols_ + c) - offset);
      }
    weights_.check_intact();
  }
  void release() const override { weights_.release(data_); }

 private:
  int integer(Bytes bytes, std::uint64_t index) const {
    const auto code = static_cast<int>(code_at(bytes, index, bits_));
    return signed_ && code >= 1 << (bits_ - 1) ? code - (1 << bits_) : code;
  }

  std::size_t rows_ = 0, cols_ = 0, rows_each_ = 0, cols_each_ = 0, across_ = 0;
  unsigned bits_ = 0;
  bool signed_ = false;
  Bytes data_, scales_, offsets_;
  const BlobFile& weights_;
};

}  // namespace

std::unique_ptr<WeightSource> make_constant_source(const Operation& operation, const BlobFile& weights) {
  if (operation.type == "constexpr_lut_to_dense") return std::make_unique<LookedUpMatrix>(operation, weights);
  if (operation.type == "constexpr_blockwise_shift_scale") return std::make_unique<ScaledMatrix>(operation, weights);
  const auto value = operation.attributes.find("val");
  NIBBLE_REQUIRE(operation.type == "const" && value != operation.attributes.end(), FormatError,
                 "operation {} is no constant matrix", operation.type);
  return std::make_unique<PlainMatrix>(value->second, weights);
}

std::vector<float> constant_values(const Value& value, const BlobFile& weights) {
  NIBBLE_REQUIRE(value.type.type == DataType::kFloat16, FormatError, "expected float16, got {}", type_text(value.type));
  const Bytes bytes = bytes_of(value, weights);
  std::vector<float> values(bytes.size() / 2);
  convert_to_f32(DType::kF16, bytes.data(), values.size(), values.data());
  weights.check_intact();
  return values;
}

}  // namespace nibble::coreml
