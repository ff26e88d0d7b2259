#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

// A Core ML model as values: what model.mlmodel says, and nothing that we do not write. Source: coremltools'
// Model.proto, FeatureTypes.proto and MIL.proto.
namespace nibble::coreml {

/// Element types, with the numbers of MIL.proto.
enum class DataType : std::uint8_t {
  kBool = 1,
  kString = 2,
  kFloat16 = 10,
  kFloat32 = 11,
  kInt8 = 21,
  kInt32 = 23,
  kInt4 = 25,
  kUInt8 = 31,
  kUInt4 = 35,
  kUInt2 = 36,
  kUInt1 = 37,
  kUInt6 = 38,
  kUInt3 = 39,
};
std::string_view data_type_name(DataType type);  ///< "fp16", "int32", …
/// Bits of an element as it is packed; 0 for strings.
unsigned data_type_bits(DataType type);
/// The unsigned type whose codes have so many bits. Requires 1, 2, 3, 4, 6 or 8.
DataType unsigned_type(unsigned bits);

/// A dimension that is known only when the program runs.
inline constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

struct TensorType {
  DataType type = DataType::kFloat16;
  std::vector<std::uint64_t> shape;
  bool operator==(const TensorType&) const = default;
  bool is_static() const;
  /// Of a static shape. Throws FormatError where it overflows 64 bits.
  std::uint64_t elements() const;
};
std::string type_text(const TensorType& type);  ///< "fp16[1, ?, 384]"
TensorType scalar_type(DataType type);

/// The type of a value: a tensor, or a state that holds one.
struct ValueType {
  TensorType tensor;
  bool state = false;
  bool operator==(const ValueType&) const = default;
};

struct NamedType {
  std::string name;
  ValueType type;
};

/// Where a constant's elements are. Elements of 16 bits and less are raw bytes, little-endian, packed as in weight.bin.
struct BlobReference {
  std::uint64_t offset = 0;  ///< of the record in weight.bin
  bool operator==(const BlobReference&) const = default;
};
struct RawBytes {
  std::string bytes;
  bool operator==(const RawBytes&) const = default;
};
struct Value {
  TensorType type;
  std::variant<std::vector<float>, std::vector<std::int32_t>, std::vector<bool>, std::vector<std::string>, RawBytes,
               BlobReference>
      data;
  bool operator==(const Value&) const = default;
};

/// An operand: a value by name, or written in place.
using Binding = std::variant<std::string, Value>;

struct Operation {
  std::string type;
  std::map<std::string, std::vector<Binding>> inputs;
  std::vector<NamedType> outputs;
  std::map<std::string, Value> attributes;
};

struct Function {
  std::vector<NamedType> inputs;
  std::string opset;
  std::vector<Operation> operations;
  std::vector<std::string> outputs;
};

/// An input, output or state as the description tells it.
struct Feature {
  std::string name;
  DataType type = DataType::kFloat16;
  std::vector<std::uint64_t> shape;  ///< the default one; empty for an output whose shape is not known
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;  ///< of every dimension, or none
  bool operator==(const Feature&) const = default;
};

struct Interface {
  std::vector<Feature> inputs, outputs, states;
  bool operator==(const Interface&) const = default;
};

struct Model {
  std::int32_t specification_version = 0;
  /// By function. A model of one function called "main" has its interface at the top level of the description.
  std::map<std::string, Interface> interfaces;
  std::string default_function;  ///< empty with one function
  std::string short_description;
  std::map<std::string, std::string> metadata;
  std::map<std::string, Function> functions;
};

/// Text of weight.bin as values name it.
inline constexpr std::string_view kWeightFile = "@model_path/weights/weight.bin";
inline constexpr std::string_view kMainFunction = "main";

/// The bytes of model.mlmodel: the same for the same model, maps in the order of their keys.
std::string encode_model(const Model& model);
/// The same for parts, for tests against what Google's library writes.
std::string encode_value_type(const ValueType& type);
std::string encode_value(const Value& value);
std::string encode_feature_type(const Feature& feature, bool state);

/// The inverse. Throws FormatError naming `where` for bytes that are no such message, and for fields that we never
/// write: what is not understood is not passed over.
Model decode_model(std::string_view bytes, const std::string& where);

}  // namespace nibble::coreml
