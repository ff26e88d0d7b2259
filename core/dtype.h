#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace nibble {

/// Element types of stored tensors; names as in safetensors headers.
enum class DType : std::uint8_t { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU64, kU32, kU16, kU8, kBool };

std::string_view dtype_name(DType dtype);                     ///< "F16", "BF16", …
std::optional<DType> dtype_from_name(std::string_view name);  ///< empty for an unknown name
std::size_t dtype_size(DType dtype);                          ///< bytes per element
bool is_float(DType dtype);                                   ///< F32, F16, BF16: what weights may be

/// IEEE binary16 -> binary32, exact. NaN payloads are kept as far as they fit.
float f16_to_f32(std::uint16_t bits);
/// binary32 -> binary16, round half to even; overflow gives infinity, NaN stays NaN.
std::uint16_t f32_to_f16(float value);
/// bfloat16 -> binary32, exact.
inline float bf16_to_f32(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
/// binary32 -> bfloat16, round half to even; NaN stays NaN.
std::uint16_t f32_to_bf16(float value);
/// Rounds to the nearest binary16 value and back: what a stored f16 scale or palette entry will decode to.
inline float round_to_f16(float value) { return f16_to_f32(f32_to_f16(value)); }

/// Converts `count` elements of type F32, F16 or BF16 at `source` (any alignment) to float, exactly.
/// Runs at the widest instruction set (active_isa()); all of them give the same bits.
/// Throws InvalidArgument for another dtype.
void convert_to_f32(DType dtype, const std::byte* source, std::size_t count, float* destination);
/// Rounds `values` to F16, half to even, at the widest instruction set.
void convert_to_f16(std::span<const float> values, std::uint16_t* destination);
/// Rounds `values` to the nearest BF16 values, half to even, kept as floats: f32_to_bf16() and back, at the widest
/// instruction set. `destination` may be the values themselves.
void round_to_bf16(std::span<const float> values, float* destination);

}  // namespace nibble
