#include "export/coreml/verify.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "export/coreml/graph.h"
#include "export/coreml/type_inference.h"

namespace nibble::coreml {
namespace {

/// One function against its description and the blobs.
class FunctionVerifier {
 public:
  FunctionVerifier(const std::string& name, const Function& function, const Interface& interface,
                   const BlobFile& weights, std::set<std::uint64_t>& used_blobs)
      : name_(name), function_(function), interface_(interface), weights_(weights), used_(used_blobs) {}

  void verify() {
    require(function_.opset == "CoreML8", "opset '" + function_.opset + "', expected CoreML8");
    for (const NamedType& input : function_.inputs) define(input);
    for (const Operation& operation : function_.operations) {
      try {
        check(operation);
      } catch (const FormatError& error) {
        throw FormatError(fmt::format("function {}, operation '{}': {}", name_, label(operation), error.what()));
      }
    }
    check_inputs();
    check_outputs();
  }

 private:
  static std::string label(const Operation& operation) {
    return operation.outputs.empty() ? operation.type : operation.outputs.front().name;
  }
  void require(bool condition, const std::string& reason) const {
    NIBBLE_REQUIRE(condition, FormatError, "function {}: {}", name_, reason);
  }

  void define(const NamedType& named) {
    require(is_identifier(named.name), "'" + named.name + "' is no identifier");
    require(types_.emplace(named.name, named.type).second, "value '" + named.name + "' is defined twice");
  }

  void check_blob(const Value& value) {
    if (const auto* blob = std::get_if<BlobReference>(&value.data)) {
      static_cast<void>(weights_.find(value.type, blob->offset));
      used_.insert(blob->offset);
    }
  }

  void check_attributes(const Operation& operation) const {
    const bool is_const = operation.type == "const";
    const auto name = operation.attributes.find("name");
    NIBBLE_REQUIRE(name != operation.attributes.end() && name->second.type == scalar_type(DataType::kString),
                   FormatError, "the attribute 'name' is missing or no text");
    NIBBLE_REQUIRE(operation.attributes.size() == (is_const ? 2u : 1u), FormatError, "attributes beside 'name'{}",
                   is_const ? " and 'val'" : "");
  }

  void check(const Operation& operation) {
    check_attributes(operation);
    const std::vector<TensorType> results = operation.type == "const" ? check_const(operation) : check_call(operation);
    NIBBLE_REQUIRE(results.size() == operation.outputs.size(), FormatError, "{} results, expected {}",
                   operation.outputs.size(), results.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      const NamedType& declared = operation.outputs[i];
      NIBBLE_REQUIRE(declared.type == (ValueType{results[i], false}), FormatError, "declares {} and is {}",
                     type_text(declared.type.tensor), type_text(results[i]));
      define(declared);
    }
  }

  std::vector<TensorType> check_const(const Operation& operation) {
    NIBBLE_REQUIRE(operation.inputs.empty() && operation.attributes.contains("val"), FormatError,
                   "a const has 'val' and no operands");
    const Value& value = operation.attributes.at("val");
    check_blob(value);
    constants_[operation.outputs.at(0).name] = &value;
    return {value.type};
  }

  std::vector<TensorType> check_call(const Operation& operation) {
    const bool compressed = operation.type.starts_with("constexpr_");
    Operands operands;
    for (const auto& [name, bindings] : operation.inputs)
      for (const Binding& binding : bindings) {
        NIBBLE_REQUIRE(std::holds_alternative<Value>(binding) == compressed, FormatError, "operand '{}' must be {}",
                       name, compressed ? "written in place" : "a name");
        operands[name].push_back(operand_of(binding));
      }
    return infer_types(operation.type, operands);
  }

  Operand operand_of(const Binding& binding) {
    if (const auto* value = std::get_if<Value>(&binding)) {
      check_blob(*value);
      return {{}, {value->type, false}, value};
    }
    const std::string& name = std::get<std::string>(binding);
    const auto found = types_.find(name);
    NIBBLE_REQUIRE(found != types_.end(), FormatError, "'{}' is not defined before it is used", name);
    const auto constant = constants_.find(name);
    return {name, found->second, constant == constants_.end() ? nullptr : constant->second};
  }

  void check_feature(const Feature& feature, bool state) const {
    const auto found = std::find_if(function_.inputs.begin(), function_.inputs.end(),
                                    [&](const NamedType& input) { return input.name == feature.name; });
    require(found != function_.inputs.end(), "'" + feature.name + "' is described and is no input");
    const TensorType& type = found->type.tensor;
    const std::string said = fmt::format("'{}' is described as {}, and is {}", feature.name,
                                         type_text({feature.type, feature.shape}), type_text(type));
    require(found->type.state == state && feature.type == type.type && feature.shape.size() == type.shape.size(), said);
    if (state) require(type.type == DataType::kFloat16 && type.is_static() && feature.ranges.empty(), said);
    require(feature.ranges.empty() == type.is_static(), said + ": ranges and unknown dimensions go together");
    for (std::size_t i = 0; i < type.shape.size(); ++i) {
      require(type.shape[i] == kUnknown || feature.shape[i] == type.shape[i], said);
      if (feature.ranges.empty()) continue;
      require(feature.ranges.size() == type.shape.size(), said + ": a range for every dimension");
      const auto [lower, upper] = feature.ranges[i];
      require(lower >= 1 && lower <= feature.shape[i] && feature.shape[i] <= upper && upper <= 0x7FFFFFFF &&
                  (type.shape[i] == kUnknown ? lower < upper : lower == upper),
              fmt::format("'{}': range {} to {} of dimension {}", feature.name, lower, upper, i));
    }
  }

  void check_inputs() const {
    for (const Feature& feature : interface_.inputs) check_feature(feature, false);
    for (const Feature& feature : interface_.states) check_feature(feature, true);
    std::set<std::string> described;
    for (const auto* list : {&interface_.inputs, &interface_.states})
      for (const Feature& feature : *list)
        require(described.insert(feature.name).second, "'" + feature.name + "' is described twice");
    for (const NamedType& input : function_.inputs)
      require(described.contains(input.name), "input '" + input.name + "' is not described");
  }

  void check_outputs() const {
    require(!function_.outputs.empty() && function_.outputs.size() == interface_.outputs.size(),
            fmt::format("{} outputs, {} described", function_.outputs.size(), interface_.outputs.size()));
    for (std::size_t i = 0; i < function_.outputs.size(); ++i) {
      const std::string& name = function_.outputs[i];
      const Feature& feature = interface_.outputs[i];
      const auto found = types_.find(name);
      require(found != types_.end() && feature.name == name, "output '" + name + "' is not there or not described");
      const TensorType& type = found->second.tensor;
      require(feature.type == type.type && feature.ranges.empty() &&
                  feature.shape == (type.is_static() ? type.shape : std::vector<std::uint64_t>{}),
              fmt::format("output '{}' is described as {}, and is {}", name, type_text({feature.type, feature.shape}),
                          type_text(type)));
      for (const NamedType& input : function_.inputs) require(input.name != name, "output '" + name + "' is an input");
      for (const Operation& operation : function_.operations)
        if (operation.type == "write_state")
          require(operation.inputs.at("data") != std::vector<Binding>{name}, "output '" + name + "' feeds a state");
    }
  }

  const std::string& name_;
  const Function& function_;
  const Interface& interface_;
  const BlobFile& weights_;
  std::set<std::uint64_t>& used_;
  std::map<std::string, ValueType> types_;
  std::map<std::string, const Value*> constants_;
};

}  // namespace

void verify_package(const Package& package) {
  const Model& model = package.model;
  NIBBLE_REQUIRE(model.specification_version == kSpecificationVersion, FormatError,
                 "specification version {}, expected {}", model.specification_version, kSpecificationVersion);
  NIBBLE_REQUIRE(!model.functions.empty() && model.functions.size() == model.interfaces.size(), FormatError,
                 "{} functions, {} descriptions", model.functions.size(), model.interfaces.size());
  const std::string fallback = model.default_function.empty() ? std::string(kMainFunction) : model.default_function;
  NIBBLE_REQUIRE(model.functions.contains(fallback), FormatError, "there is no function '{}'", fallback);
  std::set<std::uint64_t> used;
  for (const auto& [name, function] : model.functions) {
    const auto interface = model.interfaces.find(name);
    NIBBLE_REQUIRE(interface != model.interfaces.end(), FormatError, "function '{}' is not described", name);
    FunctionVerifier(name, function, interface->second, package.weights, used).verify();
    verify_slots(function);
  }
  for (const auto& [offset, blob] : package.weights.blobs())
    NIBBLE_REQUIRE(used.contains(offset), FormatError, "no constant uses the blob at offset {}", offset);
}

}  // namespace nibble::coreml
