#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/tensor_text.h"
#include "model/checkpoint/tensor_view.h"

namespace nibble::model {

struct SafetensorsContents {
  std::vector<TensorView> tensors;              ///< in name order; `data` points into the bytes given
  std::map<std::string, std::string> metadata;  ///< `__metadata__`
};

/// Reads a safetensors file that is in memory (or mapped).
///
/// Layout   u64 little-endian header size n; n bytes of JSON, which may end in spaces; the data. The header is an
///          object: tensor name -> {"dtype", "shape", "data_offsets": [begin, end]} relative to the data, and
///          optionally "__metadata__" -> strings.
/// Accepts  what the specification accepts: the data is covered by the tensors without gaps, overlaps or a rest, names
///          are unique, end - begin is exactly product(shape) * dtype size.
/// Errors   FormatError naming the tensor, `file`, what was expected and what was found. Nothing is allocated in
///          proportion to a number in the file; the header's JSON is streamed.
SafetensorsContents parse_safetensors(std::span<const std::byte> bytes, std::string_view file);

}  // namespace nibble::model
