#pragma once

#include <string>

#include "model/architecture/architecture.h"

// What the constants of a package are called: how a reader finds a weight of the network again.
namespace nibble::coreml {

/// Of a vector: its tensor, and where it begins if it is a part of that.
inline std::string vector_name(const model::Stored& stored) {
  if (stored.is_whole()) return stored.tensor;
  return stored.tensor + ".from" + std::to_string(stored.part.first) + "of" + std::to_string(stored.slice);
}
/// Of the values from `begin` of a vector that is cut, as the bias of a matrix in parts is: each part has a name of its
/// own, whatever it holds.
inline std::string vector_rows_name(const std::string& vector, std::size_t begin) {
  return vector + ".rows" + std::to_string(begin);
}
/// Of a norm's gains: those of the first group, where every group has its own.
inline std::string gain_name(const model::NormSpec& norm) {
  return vector_name(norm.gain ? *norm.gain : norm.group_gains.front());
}
/// Of a matrix.
inline const std::string& matrix_name(const model::Parameter& parameter) { return parameter.weight_module; }
/// Of the rows from `begin` of a matrix that is cut.
inline std::string rows_name(const model::Parameter& parameter, std::size_t begin) {
  return parameter.weight_module + ".rows" + std::to_string(begin);
}

}  // namespace nibble::coreml
