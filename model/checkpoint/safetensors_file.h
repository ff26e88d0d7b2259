#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/checkpoint.h"

namespace nibble::model {

/// Largest header accepted and written, as in the reference implementation of safetensors.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;
/// Longest tensor name and highest rank accepted: far above anything real.
inline constexpr std::size_t kMaxTensorName = 1024, kMaxRank = 32;

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

/// Whether `name` has 1 to kMaxTensorName bytes, none of them a control character (names are shown on terminals).
bool is_valid_tensor_name(std::string_view name);
/// Throws FormatError unless is_valid_tensor_name().
void check_tensor_name(std::string_view name, std::string_view file);

/// "(11008, 2048)".
std::string shape_text(std::span<const std::uint64_t> shape);

/// `text` for use in a message: control characters replaced, cut after `longest` bytes.
std::string excerpt(std::string_view text, std::size_t longest = 80);

}  // namespace nibble::model
