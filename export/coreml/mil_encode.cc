#include "core/error.h"
#include "export/coreml/mil.h"
#include "export/coreml/protobuf_writer.h"

// Field numbers: Model.proto, FeatureTypes.proto, MIL.proto of coremltools.
namespace nibble::coreml {
namespace {

using Writer = ProtobufWriter;

template <class T>
std::int64_t number_of(T value) {
  return static_cast<std::int64_t>(value);
}

void put_tensor_type(Writer& out, const TensorType& type) {
  out.number(1, number_of(type.type));
  out.number(2, number_of(type.shape.size()));
  for (const std::uint64_t n : type.shape)
    out.message(3, [&](Writer& dimension) {
      if (n == kUnknown)
        dimension.message(2, [](Writer&) {});
      else
        dimension.message(1, [&](Writer& constant) { constant.number(1, number_of(n)); });
    });
}

void put_value_type(Writer& out, const ValueType& type) {
  if (!type.state) return out.message(1, [&](Writer& tensor) { put_tensor_type(tensor, type.tensor); });
  out.message(5, [&](Writer& state) {
    state.message(1, [&](Writer& wrapped) { put_value_type(wrapped, {type.tensor, false}); });
  });
}

void put_named_type(Writer& out, const NamedType& named) {
  out.text(1, named.name);
  out.message(2, [&](Writer& type) { put_value_type(type, named.type); });
}

struct PutElements {
  Writer& out;
  void operator()(const std::vector<float>& values) const {
    out.message(1, [&](Writer& w) { w.packed_floats(1, values); });
  }
  void operator()(const std::vector<std::int32_t>& values) const {
    out.message(2, [&](Writer& w) { w.packed(1, values); });
  }
  void operator()(const std::vector<bool>& values) const {
    out.message(3, [&](Writer& w) { w.packed(1, values); });
  }
  void operator()(const std::vector<std::string>& values) const {
    out.message(4, [&](Writer& w) {
      for (const std::string& value : values) w.text(1, value);
    });
  }
  void operator()(const RawBytes& raw) const {
    out.message(7, [&](Writer& w) {
      if (!raw.bytes.empty()) w.text(1, raw.bytes);
    });
  }
  void operator()(const BlobReference&) const {}
};

void put_value(Writer& out, const Value& value) {
  out.message(2, [&](Writer& type) { put_value_type(type, {value.type, false}); });
  if (const auto* blob = std::get_if<BlobReference>(&value.data)) {
    out.message(5, [&](Writer& file) {
      file.text(1, kWeightFile);
      file.number(2, number_of(blob->offset));
    });
    return;
  }
  out.message(3, [&](Writer& immediate) {
    immediate.message(1, [&](Writer& tensor) { std::visit(PutElements{tensor}, value.data); });
  });
}

template <class Map, class Put>
void put_map(Writer& out, unsigned field, const Map& map, Put&& put) {
  for (const auto& [key, value] : map)
    out.message(field, [&, &k = key, &v = value](Writer& entry) {
      entry.text(1, k);
      entry.message(2, [&](Writer& inside) { put(inside, v); });
    });
}

void put_argument(Writer& out, const std::vector<Binding>& bindings) {
  for (const Binding& binding : bindings)
    out.message(1, [&](Writer& one) {
      if (const auto* name = std::get_if<std::string>(&binding))
        one.text(1, *name);
      else
        one.message(2, [&](Writer& value) { put_value(value, std::get<Value>(binding)); });
    });
}

void put_operation(Writer& out, const Operation& operation) {
  out.text(1, operation.type);
  put_map(out, 2, operation.inputs, put_argument);
  for (const NamedType& named : operation.outputs) out.message(3, [&](Writer& w) { put_named_type(w, named); });
  put_map(out, 5, operation.attributes, put_value);
}

void put_block(Writer& out, const Function& function) {
  for (const std::string& name : function.outputs) out.text(2, name);
  for (const Operation& operation : function.operations)
    out.message(3, [&](Writer& w) { put_operation(w, operation); });
}

void put_function(Writer& out, const Function& function) {
  for (const NamedType& input : function.inputs) out.message(1, [&](Writer& w) { put_named_type(w, input); });
  out.text(2, function.opset);
  put_map(out, 3, std::map<std::string, const Function*>{{function.opset, &function}},
          [](Writer& w, const Function* f) { put_block(w, *f); });
}

std::int64_t array_type_number(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return 0x10010;
    case DataType::kFloat32:
      return 0x10020;
    case DataType::kInt32:
      return 0x20020;
    default:
      throw InvalidArgument(fmt::format("an input, output or state cannot be of {}", data_type_name(type)));
  }
}

void put_array_type(Writer& out, const Feature& feature) {
  out.packed(1, feature.shape);
  out.number(2, array_type_number(feature.type));
  if (feature.ranges.empty()) return;
  out.message(31, [&](Writer& range) {
    for (const auto& [lower, upper] : feature.ranges)
      range.message(1, [&, low = lower, high = upper](Writer& size) {
        size.number(1, number_of(low));
        size.number(2, number_of(high));
      });
  });
}

void put_feature_type(Writer& out, const Feature& feature, bool state) {
  if (!state) return out.message(5, [&](Writer& array) { put_array_type(array, feature); });
  out.message(8, [&](Writer& type) { type.message(1, [&](Writer& array) { put_array_type(array, feature); }); });
}

void put_features(Writer& out, unsigned field, const std::vector<Feature>& features, bool state) {
  for (const Feature& feature : features)
    out.message(field, [&](Writer& w) {
      w.text(1, feature.name);
      w.message(3, [&](Writer& type) { put_feature_type(type, feature, state); });
    });
}

void put_description(Writer& out, const Model& model) {
  if (model.default_function.empty()) {
    NIBBLE_REQUIRE(model.interfaces.size() == 1, InvalidArgument, "one function has one interface, got {}",
                   model.interfaces.size());
    const Interface& interface = model.interfaces.begin()->second;
    put_features(out, 1, interface.inputs, false);
    put_features(out, 10, interface.outputs, false);
    put_features(out, 13, interface.states, true);
  } else {
    for (const auto& [name, interface] : model.interfaces)
      out.message(20, [&, &n = name, &i = interface](Writer& function) {
        function.text(1, n);
        put_features(function, 2, i.inputs, false);
        put_features(function, 3, i.outputs, false);
        put_features(function, 6, i.states, true);
      });
    out.text(21, model.default_function);
  }
  out.message(100, [&](Writer& metadata) {
    if (!model.short_description.empty()) metadata.text(1, model.short_description);
    for (const auto& [key, value] : model.metadata)
      metadata.message(100, [&, &k = key, &v = value](Writer& entry) {
        entry.text(1, k);
        entry.text(2, v);
      });
  });
}

}  // namespace

std::string encode_value_type(const ValueType& type) {
  Writer out;
  put_value_type(out, type);
  return out.bytes();
}

std::string encode_value(const Value& value) {
  Writer out;
  put_value(out, value);
  return out.bytes();
}

std::string encode_feature_type(const Feature& feature, bool state) {
  Writer out;
  put_feature_type(out, feature, state);
  return out.bytes();
}

std::string encode_model(const Model& model) {
  Writer out;
  out.number(1, model.specification_version);
  if (!model.interfaces.empty()) out.message(2, [&](Writer& description) { put_description(description, model); });
  if (!model.functions.empty())
    out.message(502, [&](Writer& program) {
      program.number(1, 1);
      put_map(program, 2, model.functions, put_function);
    });
  return out.bytes();
}

}  // namespace nibble::coreml
