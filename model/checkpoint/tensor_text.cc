#include "model/checkpoint/tensor_text.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "core/text/excerpt.h"

namespace nibble::model {
namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

bool is_valid_tensor_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxTensorName && std::none_of(name.begin(), name.end(), is_control);
}

void check_tensor_name(std::string_view name, std::string_view file) {
  NIBBLE_REQUIRE(is_valid_tensor_name(name), FormatError,
                 "tensor name '{}': expected 1 to {} bytes without control characters, got {} (file {})", excerpt(name),
                 kMaxTensorName, name.size(), file);
}

std::string shape_text(std::span<const std::uint64_t> shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

}  // namespace nibble::model
