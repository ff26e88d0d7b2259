#include "export/coreml/graph.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "core/error.h"
#include "core/matrix/dtype.h"
#include "export/coreml/type_inference.h"

namespace nibble::coreml {
namespace {

// Words that MIL's own text form uses (coremltools' NameSanitizer).
constexpr std::array<std::string_view, 26> kWords{"any",    "bool",   "program", "func",   "tensor", "list",  "dict",
                                                  "tuple",  "true",   "false",   "string", "bf16",   "fp16",  "fp32",
                                                  "fp64",   "int8",   "int16",   "int32",  "int64",  "uint8", "uint16",
                                                  "uint32", "uint64", "state",   "",       ""};

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_word(std::string_view text) { return std::find(kWords.begin(), kWords.end(), text) != kWords.end(); }

}  // namespace

bool is_identifier(std::string_view text) {
  return !text.empty() && is_letter(text[0]) && !is_word(text) && std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

std::string identifier(std::string_view text) {
  std::string name;
  for (const char c : text) name.push_back(is_letter(c) || std::isdigit(static_cast<unsigned char>(c)) != 0 ? c : '_');
  return is_identifier(name) ? name : "v_" + name;
}

std::string Graph::unique(std::string_view wanted) {
  const std::string base = identifier(wanted);
  std::string name = base;
  for (std::size_t n = 1; !names_.insert(name).second; ++n) name = fmt::format("{}_{}", base, n);
  return name;
}

Var Graph::input(const std::string& name, TensorType type) {
  Var var{unique(name), {std::move(type), false}};
  function_.inputs.push_back({var.name, var.type});
  return var;
}

Var Graph::state(const std::string& name, TensorType type) {
  Var var{unique(name), {std::move(type), true}};
  function_.inputs.push_back({var.name, var.type});
  return var;
}

Var Graph::constant(Value value, const std::string& name) {
  const std::string key = encode_value(value);
  if (const auto found = small_.find(key); found != small_.end()) return found->second;
  Var var{unique(name), {value.type, false}};
  Operation operation{"const", {}, {{var.name, var.type}}, {}};
  operation.attributes["name"] = Value{scalar_type(DataType::kString), std::vector<std::string>{var.name}};
  operation.attributes["val"] = value;
  function_.operations.push_back(std::move(operation));
  values_[var.name] = std::move(value);
  return small_[key] = var;
}

Var Graph::integer(std::int32_t value) {
  return constant({scalar_type(DataType::kInt32), std::vector<std::int32_t>{value}}, "int_const");
}
Var Graph::integers(const std::vector<std::int32_t>& values) {
  return constant({{DataType::kInt32, {values.size()}}, values}, "ints_const");
}
Var Graph::flag(bool value) {
  return constant({scalar_type(DataType::kBool), std::vector<bool>{value}}, value ? "yes_const" : "no_const");
}
Var Graph::flags(const std::vector<bool>& values) {
  return constant({{DataType::kBool, {values.size()}}, values}, "flags_const");
}
Var Graph::text(const std::string& value) {
  return constant({scalar_type(DataType::kString), std::vector<std::string>{value}}, "text_const");
}
Var Graph::half(double value) {
  const std::uint16_t bits = f32_to_f16(static_cast<float>(value));
  const float rounded = f16_to_f32(bits);
  NIBBLE_REQUIRE(std::isfinite(rounded) && (rounded != 0.0f || value == 0.0), InvalidArgument,
                 "Core ML: a factor of this network is beyond float16: expected 6e-8 to 65504 in size, got {}; "
                 "--format gguf and dequantized keep such factors",
                 value);
  return constant(
      {scalar_type(DataType::kFloat16), RawBytes{{static_cast<char>(bits & 0xFFu), static_cast<char>(bits >> 8u)}}},
      "half_const");
}
Var Graph::single(double value) {
  return constant({scalar_type(DataType::kFloat32), std::vector<float>{static_cast<float>(value)}}, "single_const");
}

Var Graph::stored(const Constant& stored, const std::string& name) {
  if (stored.operation == "const") return constant(stored.operands.at("val"), name);
  std::string key = stored.operation;
  for (const auto& [operand, value] : stored.operands) key += encode_value(value);
  if (const auto found = small_.find(key); found != small_.end()) return found->second;
  Var var{unique(name), {stored.type, false}};
  Operation operation{stored.operation, {}, {{var.name, var.type}}, {}};
  for (const auto& [operand, value] : stored.operands) operation.inputs[operand] = {value};
  operation.attributes["name"] = Value{scalar_type(DataType::kString), std::vector<std::string>{var.name}};
  function_.operations.push_back(std::move(operation));
  return small_[key] = var;
}

Operation Graph::make(const std::string& type, const Inputs& inputs, const std::string& name) {
  Operation operation{type, {}, {}, {}};
  Operands operands;
  for (const auto& [operand, vars] : inputs)
    for (const Var& var : vars) {
      const auto value = values_.find(var.name);
      operands[operand].push_back({var.name, var.type, value == values_.end() ? nullptr : &value->second});
      operation.inputs[operand].emplace_back(var.name);
    }
  for (const TensorType& result : infer_types(type, operands))
    operation.outputs.push_back({unique(name), {result, false}});
  operation.attributes["name"] =
      Value{scalar_type(DataType::kString),
            std::vector<std::string>{operation.outputs.empty() ? unique(name) : operation.outputs.front().name}};
  return operation;
}

Var Graph::op(const std::string& type, const Inputs& inputs, const std::string& name) {
  function_.operations.push_back(make(type, inputs, name));
  const NamedType& result = function_.operations.back().outputs.at(0);
  return {result.name, result.type};
}

void Graph::effect(const std::string& type, const Inputs& inputs, const std::string& name) {
  function_.operations.push_back(make(type, inputs, name));
}

Function Graph::finish(std::vector<std::string> outputs) {
  function_.opset = "CoreML8";
  function_.outputs = std::move(outputs);
  return std::move(function_);
}

}  // namespace nibble::coreml
