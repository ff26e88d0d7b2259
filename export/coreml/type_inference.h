#pragma once

#include <map>
#include <string>
#include <vector>

#include "export/coreml/mil.h"

namespace nibble::coreml {

/// An operand as type inference sees it.
struct Operand {
  std::string name;  ///< of the value; empty for one written in place
  ValueType type;
  const Value* constant = nullptr;  ///< its elements, where they are known
};
using Operands = std::map<std::string, std::vector<Operand>>;

/// The types of an operation's results, for every operation that the networks are built from: the rules of opset
/// CoreML8, where a dimension is a number or unknown. The builder declares what this says; the verifier compares what a
/// file declares with it. Throws FormatError: an unknown operation, an operand that is missing, one too many, or of a
/// shape or type that the operation does not take.
std::vector<TensorType> infer_types(const std::string& operation, const Operands& operands);

}  // namespace nibble::coreml
