#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/matrix/dtype.h"

namespace nibble::model {

/// What a safetensors header says of one tensor, before it is compared with the file.
struct HeaderEntry {
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< data_offsets
};

struct SafetensorsHeader {
  std::map<std::string, HeaderEntry> tensors;
  std::map<std::string, std::string> metadata;
};

/// Parses the JSON of a safetensors header. The JSON is streamed against the one shape it may have, so duplicate keys
/// are seen and a header of another shape fails at its first wrong token. Throws FormatError naming `file`.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::string_view file);

}  // namespace nibble::model
