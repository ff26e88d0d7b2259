#include "export/coreml/mil.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/checked_math.h"
#include "core/error.h"

namespace nibble::coreml {

std::string_view data_type_name(DataType type) {
  switch (type) {
    case DataType::kBool:
      return "bool";
    case DataType::kString:
      return "string";
    case DataType::kFloat16:
      return "fp16";
    case DataType::kFloat32:
      return "fp32";
    case DataType::kInt8:
      return "int8";
    case DataType::kInt32:
      return "int32";
    case DataType::kInt4:
      return "int4";
    case DataType::kUInt8:
      return "uint8";
    case DataType::kUInt4:
      return "uint4";
    case DataType::kUInt2:
      return "uint2";
    case DataType::kUInt1:
      return "uint1";
    case DataType::kUInt6:
      return "uint6";
    case DataType::kUInt3:
      return "uint3";
  }
  return "?";
}

unsigned data_type_bits(DataType type) {
  switch (type) {
    case DataType::kString:
      return 0;
    case DataType::kUInt1:
      return 1;
    case DataType::kUInt2:
      return 2;
    case DataType::kUInt3:
      return 3;
    case DataType::kInt4:
    case DataType::kUInt4:
      return 4;
    case DataType::kUInt6:
      return 6;
    case DataType::kBool:
    case DataType::kInt8:
    case DataType::kUInt8:
      return 8;
    case DataType::kFloat16:
      return 16;
    case DataType::kFloat32:
    case DataType::kInt32:
      return 32;
  }
  return 0;
}

DataType unsigned_type(unsigned bits) {
  switch (bits) {
    case 1:
      return DataType::kUInt1;
    case 2:
      return DataType::kUInt2;
    case 3:
      return DataType::kUInt3;
    case 4:
      return DataType::kUInt4;
    case 6:
      return DataType::kUInt6;
    case 8:
      return DataType::kUInt8;
    default:
      throw InvalidArgument(fmt::format("codes of {} bits: Core ML has 1, 2, 3, 4, 6 and 8", bits));
  }
}

bool TensorType::is_static() const { return std::find(shape.begin(), shape.end(), kUnknown) == shape.end(); }

std::uint64_t TensorType::elements() const { return checked_element_count(shape, "Core ML tensor"); }

TensorType scalar_type(DataType type) {
  TensorType scalar;
  scalar.type = type;
  return scalar;
}

std::string type_text(const TensorType& type) {
  std::vector<std::string> dimensions;
  for (const std::uint64_t n : type.shape) dimensions.push_back(n == kUnknown ? "?" : std::to_string(n));
  return fmt::format("{}[{}]", data_type_name(type.type), fmt::join(dimensions, ", "));
}

}  // namespace nibble::coreml
