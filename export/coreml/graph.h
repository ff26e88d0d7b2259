#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "export/coreml/constant_pool.h"
#include "export/coreml/mil.h"

namespace nibble::coreml {

/// A value of the function that is being built.
struct Var {
  std::string name;
  ValueType type;

  const std::vector<std::uint64_t>& shape() const { return type.tensor.shape; }
};

/// Builds one function: operations in order, every name once, types by type_inference.h. Small constants with the same
/// elements are one `const`.
class Graph {
 public:
  explicit Graph(ConstantPool& pool) : pool_(pool) {}

  Var input(const std::string& name, TensorType type);
  Var state(const std::string& name, TensorType type);

  // Constants.
  Var integer(std::int32_t value);
  Var integers(const std::vector<std::int32_t>& values);
  Var flag(bool value);
  Var flags(const std::vector<bool>& values);
  Var text(const std::string& value);
  /// Rounded to float16. Throws InvalidArgument where that is no number, or 0 although `value` is not.
  Var half(double value);
  Var single(double value);
  /// Larger ones, kept in weight.bin: float16 values, of the pool.
  Var stored(const Constant& constant, const std::string& name);

  using Inputs = std::vector<std::pair<std::string, std::vector<Var>>>;
  /// Adds an operation; its result is called `name`, with a number behind it where that is taken.
  Var op(const std::string& type, const Inputs& inputs, const std::string& name);
  /// One without a result.
  void effect(const std::string& type, const Inputs& inputs, const std::string& name);

  ConstantPool& pool() { return pool_; }
  Function finish(std::vector<std::string> outputs);

 private:
  std::string unique(std::string_view wanted);
  Var constant(Value value, const std::string& name);
  Operation make(const std::string& type, const Inputs& inputs, const std::string& name);

  ConstantPool& pool_;
  Function function_;
  std::set<std::string> names_;
  std::map<std::string, Var> small_;     // by encoded value
  std::map<std::string, Value> values_;  // of constants, by name
};

/// Letters, digits and underscores, not beginning with a digit and not a word of MIL's: "h.0.attn" becomes "h_0_attn".
std::string identifier(std::string_view text);
bool is_identifier(std::string_view text);

}  // namespace nibble::coreml
