#include <algorithm>
#include <bit>
#include <set>

#include "core/error.h"
#include "core/text/protobuf.h"
#include "export/coreml/mil.h"

namespace nibble::coreml {
namespace {

/// Reads messages of one file; every method refuses fields that the writer does not know.
class MilReader {
 public:
  explicit MilReader(const std::string& where) : where_(where) {}

  Model model(std::string_view bytes) const {
    Model model;
    fields(bytes, "Model", [&](const ProtobufField& f) {
      if (f.number() == 1) return model.specification_version = f.integer(), true;
      if (f.number() == 2) return description(f.bytes(), model), true;
      if (f.number() == 502) return program(f.bytes(), model), true;
      return false;
    });
    return model;
  }

 private:
  template <class OnField>
  void fields(std::string_view bytes, std::string_view message, OnField&& on_field) const {
    for_each_protobuf_field(bytes, where_, [&](const ProtobufField& field) {
      NIBBLE_REQUIRE(on_field(field), FormatError, "{}: {} has the field {}, which this reader does not know", where_,
                     message, field.number());
    });
  }

  // A map's entry: a key, and what `read` makes of the value's bytes.
  template <class T, class Read>
  void entry(std::string_view bytes, std::map<std::string, T>& map, Read&& read) const {
    std::string key;
    std::string_view value;
    fields(bytes, "an entry of a map", [&](const ProtobufField& f) {
      if (f.number() == 1) return key = std::string(f.bytes()), true;
      if (f.number() == 2) return value = f.bytes(), true;
      return false;
    });
    NIBBLE_REQUIRE(map.emplace(key, read(value)).second, FormatError, "{}: '{}' is there twice in a map", where_, key);
  }

  std::uint64_t dimension(std::string_view bytes) const {
    std::optional<std::uint64_t> size;
    fields(bytes, "Dimension", [&](const ProtobufField& f) {
      if (f.number() == 2) return size = kUnknown, f.bytes().empty();
      if (f.number() != 1) return false;
      std::uint64_t constant = 0;
      fields(f.bytes(), "ConstantDimension",
             [&](const ProtobufField& n) { return n.number() == 1 ? (constant = n.whole_number(), true) : false; });
      NIBBLE_REQUIRE(constant != kUnknown, FormatError, "{}: a dimension of 2^64 - 1", where_);
      size = constant;
      return true;
    });
    NIBBLE_REQUIRE(size, FormatError, "{}: a dimension that is neither known nor unknown", where_);
    return *size;
  }

  TensorType tensor_type(std::string_view bytes) const {
    TensorType type;
    std::int64_t number = 0;
    std::uint64_t rank = 0;
    fields(bytes, "TensorType", [&](const ProtobufField& f) {
      if (f.number() == 1) return number = f.integer(), true;
      if (f.number() == 2) return rank = f.whole_number(), true;
      if (f.number() == 3) return type.shape.push_back(dimension(f.bytes())), true;
      return false;
    });
    type.type = static_cast<DataType>(number);
    NIBBLE_REQUIRE(number > 0 && number < 64 && data_type_name(type.type) != "?", FormatError,
                   "{}: data type {} is unknown here", where_, number);
    NIBBLE_REQUIRE(rank == type.shape.size(), FormatError, "{}: a tensor of rank {} with {} dimensions", where_, rank,
                   type.shape.size());
    return type;
  }

  ValueType value_type(std::string_view bytes) const {
    ValueType type;
    bool found = false;
    fields(bytes, "ValueType", [&](const ProtobufField& f) {
      NIBBLE_REQUIRE(!found, FormatError, "{}: a type that is two types", where_);
      found = true;
      if (f.number() == 1) return type.tensor = tensor_type(f.bytes()), true;
      if (f.number() != 5) return false;
      type.state = true;
      fields(f.bytes(), "StateType", [&](const ProtobufField& wrapped) {
        if (wrapped.number() != 1) return false;
        fields(wrapped.bytes(), "ValueType of a state", [&](const ProtobufField& tensor) {
          return tensor.number() == 1 ? (type.tensor = tensor_type(tensor.bytes()), true) : false;
        });
        return true;
      });
      return true;
    });
    NIBBLE_REQUIRE(found, FormatError, "{}: a value without a type", where_);
    return type;
  }

  NamedType named_type(std::string_view bytes) const {
    NamedType named;
    bool typed = false;
    fields(bytes, "NamedValueType", [&](const ProtobufField& f) {
      if (f.number() == 1) return named.name = std::string(f.bytes()), true;
      if (f.number() == 2) return typed = true, named.type = value_type(f.bytes()), true;
      return false;
    });
    NIBBLE_REQUIRE(typed, FormatError, "{}: '{}' has no type", where_, named.name);
    return named;
  }

  // The only field, number 1, of a Repeated… message; empty where it is absent.
  std::string_view values(std::string_view bytes) const {
    std::string_view found;
    fields(bytes, "a list of values",
           [&](const ProtobufField& f) { return f.number() == 1 ? (found = f.bytes(), true) : false; });
    return found;
  }

  std::vector<float> floats(std::string_view bytes) const {
    NIBBLE_REQUIRE(bytes.size() % 4 == 0, FormatError, "{}: {} bytes of float32 values", where_, bytes.size());
    std::vector<float> list(bytes.size() / 4);
    for (std::size_t i = 0; i < list.size(); ++i) {
      std::uint32_t bits = 0;
      for (unsigned b = 0; b < 4; ++b) bits |= std::uint32_t{static_cast<unsigned char>(bytes[4 * i + b])} << (8 * b);
      list[i] = std::bit_cast<float>(bits);
    }
    return list;
  }

  template <class T, class Convert>
  std::vector<T> numbers(std::string_view bytes, Convert&& convert) const {
    std::vector<T> list;
    for (const std::uint64_t n : packed_protobuf_numbers(bytes, where_)) list.push_back(convert(n));
    return list;
  }

  void elements(std::string_view bytes, Value& value) const {
    fields(bytes, "TensorValue", [&](const ProtobufField& f) {
      switch (f.number()) {
        case 1:
          value.data = floats(values(f.bytes()));
          return true;
        case 2:
          value.data = numbers<std::int32_t>(values(f.bytes()), [](std::uint64_t n) {
            return static_cast<std::int32_t>(static_cast<std::uint32_t>(n));
          });
          return true;
        case 3:
          value.data = numbers<bool>(values(f.bytes()), [](std::uint64_t n) { return n != 0; });
          return true;
        case 4: {
          std::vector<std::string> texts;
          fields(f.bytes(), "RepeatedStrings", [&](const ProtobufField& text) {
            return text.number() == 1 ? (texts.emplace_back(text.bytes()), true) : false;
          });
          value.data = std::move(texts);
          return true;
        }
        case 7:
          value.data = RawBytes{std::string(values(f.bytes()))};
          return true;
        default:
          return false;
      }
    });
  }

  // How many elements, and of which kind, there must be for the type that is declared.
  void check_elements(const Value& value) const {
    const std::string type = type_text(value.type);
    NIBBLE_REQUIRE(value.type.is_static(), FormatError, "{}: a constant of {}", where_, type);
    if (std::holds_alternative<BlobReference>(value.data)) return;
    const std::uint64_t count = value.type.elements();
    const auto fits = [&](std::uint64_t size, bool right_kind) {
      NIBBLE_REQUIRE(right_kind && size == count, FormatError, "{}: a constant of {} with other values in it", where_,
                     type);
    };
    const DataType t = value.type.type;
    if (const auto* list = std::get_if<std::vector<float>>(&value.data)) fits(list->size(), t == DataType::kFloat32);
    if (const auto* list = std::get_if<std::vector<std::int32_t>>(&value.data))
      fits(list->size(), t == DataType::kInt32);
    if (const auto* list = std::get_if<std::vector<bool>>(&value.data)) fits(list->size(), t == DataType::kBool);
    if (const auto* list = std::get_if<std::vector<std::string>>(&value.data))
      fits(list->size(), t == DataType::kString);
    if (const auto* raw = std::get_if<RawBytes>(&value.data)) {
      const bool raw_type =
          t != DataType::kFloat32 && t != DataType::kInt32 && t != DataType::kBool && t != DataType::kString;
      NIBBLE_REQUIRE(
          raw_type && count <= raw->bytes.size() * 8 && raw->bytes.size() == (count * data_type_bits(t) + 7) / 8,
          FormatError, "{}: a constant of {} in {} bytes", where_, type, raw->bytes.size());
    }
  }

  Value value(std::string_view bytes) const {
    Value value;
    bool typed = false, filled = false;
    fields(bytes, "Value", [&](const ProtobufField& f) {
      if (f.number() == 2) {
        const ValueType type = value_type(f.bytes());
        NIBBLE_REQUIRE(!type.state, FormatError, "{}: a constant that is a state", where_);
        value.type = type.tensor;
        return typed = true;
      }
      if (f.number() == 3) {
        fields(f.bytes(), "ImmediateValue", [&](const ProtobufField& tensor) {
          return tensor.number() == 1 ? (elements(tensor.bytes(), value), true) : false;
        });
        return filled = true;
      }
      if (f.number() == 5) {
        BlobReference blob;
        std::string_view file;
        fields(f.bytes(), "BlobFileValue", [&](const ProtobufField& part) {
          if (part.number() == 1) return file = part.bytes(), true;
          if (part.number() == 2) return blob.offset = part.whole_number(), true;
          return false;
        });
        NIBBLE_REQUIRE(file == kWeightFile, FormatError, "{}: a constant lies in '{}', expected '{}'", where_, file,
                       kWeightFile);
        value.data = blob;
        return filled = true;
      }
      return false;
    });
    NIBBLE_REQUIRE(typed && filled, FormatError, "{}: a constant without type or values", where_);
    check_elements(value);
    return value;
  }

  std::vector<Binding> argument(std::string_view bytes) const {
    std::vector<Binding> bindings;
    fields(bytes, "Argument", [&](const ProtobufField& f) {
      if (f.number() != 1) return false;
      fields(f.bytes(), "Binding", [&](const ProtobufField& one) {
        if (one.number() == 1) return bindings.emplace_back(std::string(one.bytes())), true;
        if (one.number() == 2) return bindings.emplace_back(value(one.bytes())), true;
        return false;
      });
      return true;
    });
    return bindings;
  }

  Operation operation(std::string_view bytes) const {
    Operation operation;
    fields(bytes, "Operation", [&](const ProtobufField& f) {
      if (f.number() == 1) return operation.type = std::string(f.bytes()), true;
      if (f.number() == 2)
        return entry(f.bytes(), operation.inputs, [&](std::string_view b) { return argument(b); }), true;
      if (f.number() == 3) return operation.outputs.push_back(named_type(f.bytes())), true;
      if (f.number() == 5)
        return entry(f.bytes(), operation.attributes, [&](std::string_view b) { return value(b); }), true;
      return false;
    });
    return operation;
  }

  void block(std::string_view bytes, Function& function) const {
    fields(bytes, "Block", [&](const ProtobufField& f) {
      if (f.number() == 2) return function.outputs.emplace_back(f.bytes()), true;
      if (f.number() == 3) return function.operations.push_back(operation(f.bytes())), true;
      return false;
    });
  }

  Function function(std::string_view bytes) const {
    Function function;
    std::map<std::string, std::string_view> blocks;
    fields(bytes, "Function", [&](const ProtobufField& f) {
      if (f.number() == 1) return function.inputs.push_back(named_type(f.bytes())), true;
      if (f.number() == 2) return function.opset = std::string(f.bytes()), true;
      if (f.number() == 3) return entry(f.bytes(), blocks, [](std::string_view b) { return b; }), true;
      return false;
    });
    NIBBLE_REQUIRE(blocks.size() == 1 && blocks.begin()->first == function.opset, FormatError,
                   "{}: a function of opset '{}' must have its block alone, got {} blocks", where_, function.opset,
                   blocks.size());
    block(blocks.begin()->second, function);
    return function;
  }

  void program(std::string_view bytes, Model& model) const {
    std::int32_t version = 0;
    fields(bytes, "Program", [&](const ProtobufField& f) {
      if (f.number() == 1) return version = f.integer(), true;
      if (f.number() == 2)
        return entry(f.bytes(), model.functions, [&](std::string_view b) { return function(b); }), true;
      return false;
    });
    NIBBLE_REQUIRE(version == 1, FormatError, "{}: program version {}, expected 1", where_, version);
  }

  void array_type(std::string_view bytes, Feature& feature) const {
    fields(bytes, "ArrayFeatureType", [&](const ProtobufField& f) {
      if (f.number() == 1) return feature.shape = packed_protobuf_numbers(f.bytes(), where_), true;
      if (f.number() == 2) {
        const std::int32_t number = f.integer();
        const std::map<std::int32_t, DataType> types{
            {0x10010, DataType::kFloat16}, {0x10020, DataType::kFloat32}, {0x20020, DataType::kInt32}};
        NIBBLE_REQUIRE(types.contains(number), FormatError, "{}: array data type {} of '{}' is unknown here", where_,
                       number, feature.name);
        return feature.type = types.at(number), true;
      }
      if (f.number() != 31) return false;
      fields(f.bytes(), "ShapeRange", [&](const ProtobufField& range) {
        if (range.number() != 1) return false;
        std::pair<std::uint64_t, std::uint64_t> bounds{0, 0};
        fields(range.bytes(), "SizeRange", [&](const ProtobufField& bound) {
          if (bound.number() == 1) return bounds.first = bound.whole_number(), true;
          if (bound.number() == 2) return bounds.second = bound.whole_number(), true;
          return false;
        });
        return feature.ranges.push_back(bounds), true;
      });
      return true;
    });
  }

  Feature feature(std::string_view bytes, bool state) const {
    Feature feature;
    fields(bytes, "FeatureDescription", [&](const ProtobufField& f) {
      if (f.number() == 1) return feature.name = std::string(f.bytes()), true;
      if (f.number() != 3) return false;
      fields(f.bytes(), "FeatureType", [&](const ProtobufField& type) {
        if (type.number() != (state ? 8u : 5u)) return false;
        if (!state) return array_type(type.bytes(), feature), true;
        fields(type.bytes(), "StateFeatureType", [&](const ProtobufField& array) {
          return array.number() == 1 ? (array_type(array.bytes(), feature), true) : false;
        });
        return true;
      });
      return true;
    });
    return feature;
  }

  void function_description(std::string_view bytes, Model& model) const {
    std::string name;
    Interface interface;
    fields(bytes, "FunctionDescription", [&](const ProtobufField& f) {
      if (f.number() == 1) return name = std::string(f.bytes()), true;
      if (f.number() == 2) return interface.inputs.push_back(feature(f.bytes(), false)), true;
      if (f.number() == 3) return interface.outputs.push_back(feature(f.bytes(), false)), true;
      if (f.number() == 6) return interface.states.push_back(feature(f.bytes(), true)), true;
      return false;
    });
    NIBBLE_REQUIRE(model.interfaces.emplace(name, std::move(interface)).second, FormatError,
                   "{}: function '{}' is described twice", where_, name);
  }

  void metadata(std::string_view bytes, Model& model) const {
    fields(bytes, "Metadata", [&](const ProtobufField& f) {
      if (f.number() == 1) return model.short_description = std::string(f.bytes()), true;
      if (f.number() != 100) return false;
      entry(f.bytes(), model.metadata, [](std::string_view text) { return std::string(text); });
      return true;
    });
  }

  void description(std::string_view bytes, Model& model) const {
    Interface top;
    fields(bytes, "ModelDescription", [&](const ProtobufField& f) {
      if (f.number() == 1) return top.inputs.push_back(feature(f.bytes(), false)), true;
      if (f.number() == 10) return top.outputs.push_back(feature(f.bytes(), false)), true;
      if (f.number() == 13) return top.states.push_back(feature(f.bytes(), true)), true;
      if (f.number() == 20) return function_description(f.bytes(), model), true;
      if (f.number() == 21) return model.default_function = std::string(f.bytes()), true;
      if (f.number() == 100) return metadata(f.bytes(), model), true;
      return false;
    });
    if (model.default_function.empty()) {
      NIBBLE_REQUIRE(model.interfaces.empty(), FormatError, "{}: functions without a default one", where_);
      model.interfaces[std::string(kMainFunction)] = std::move(top);
    } else {
      NIBBLE_REQUIRE(top == Interface{}, FormatError,
                     "{}: a description of several functions that also describes the model itself", where_);
    }
  }

  const std::string& where_;
};

}  // namespace

Model decode_model(std::string_view bytes, const std::string& where) { return MilReader(where).model(bytes); }

}  // namespace nibble::coreml
