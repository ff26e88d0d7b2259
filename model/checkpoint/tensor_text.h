#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// Names and shapes of tensors in files and messages.
namespace nibble::model {

/// Largest header accepted and written, as in the reference implementation of safetensors.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;
/// Longest tensor name and highest rank accepted: far above anything real.
inline constexpr std::size_t kMaxTensorName = 1024, kMaxRank = 32;

/// Whether `name` has 1 to kMaxTensorName bytes, none of them a control character (names are shown on terminals).
bool is_valid_tensor_name(std::string_view name);
/// Throws FormatError unless is_valid_tensor_name().
void check_tensor_name(std::string_view name, std::string_view file);

/// "(11008, 2048)".
std::string shape_text(std::span<const std::uint64_t> shape);

}  // namespace nibble::model
