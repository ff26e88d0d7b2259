#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace nibble {

/// Element types of stored tensors; names as in safetensors headers.
enum class DType : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0
};

std::string_view dtype_name(DType dtype);                     ///< "F16", "BF16", …
std::optional<DType> dtype_from_name(std::string_view name);  ///< empty for an unknown name
std::size_t dtype_size(DType dtype);                          ///< bytes per element
bool is_float(DType dtype);                                   ///< F32, F16, BF16: what weights may be as they lie
bool is_float8(DType dtype);  ///< F8_E4M3, F8_E5M2: weights whose values need scales that lie elsewhere

/// IEEE binary16 -> binary32, exact. NaN payloads are kept as far as they fit.
float f16_to_f32(std::uint16_t bits);
/// binary32 -> binary16, round half to even; overflow gives infinity, NaN stays NaN.
std::uint16_t f32_to_f16(float value);
/// bfloat16 -> binary32, exact.
inline float bf16_to_f32(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
/// binary32 -> bfloat16, round half to even; NaN stays NaN.
std::uint16_t f32_to_bf16(float value);
/// The 8-bit floats of the OCP specifications (OFP8 1.0, MX 1.0) -> binary32, exact.
/// E4M3: bias 7, no infinity, NaN where all bits but the sign are ones. E5M2: the upper byte of a binary16.
/// E8M0: no sign, no fraction, 2^(bits - 127), and 255 is NaN: what scales are.
float f8_e4m3_to_f32(std::uint8_t bits);
inline float f8_e5m2_to_f32(std::uint8_t bits) { return f16_to_f32(static_cast<std::uint16_t>(bits << 8)); }
float f8_e8m0_to_f32(std::uint8_t bits);
/// Rounds to the nearest binary16 value and back: what a stored f16 scale or palette entry will decode to.
inline float round_to_f16(float value) { return f16_to_f32(f32_to_f16(value)); }

/// Converts `count` elements of type F32, F16, BF16 or of 8-bit floats at `source` (any alignment) to float, exactly.
/// Runs at the widest instruction set (active_isa()); all of them give the same bits.
/// Throws InvalidArgument for another dtype.
void convert_to_f32(DType dtype, const std::byte* source, std::size_t count, float* destination);
/// Rounds `values` to F16, half to even, at the widest instruction set.
void convert_to_f16(std::span<const float> values, std::uint16_t* destination);
/// Rounds `values` to the nearest BF16 values, half to even, kept as floats: f32_to_bf16() and back, at the widest
/// instruction set. `destination` may be the values themselves.
void round_to_bf16(std::span<const float> values, float* destination);
/// The same values as bits: f32_to_bf16() of each. Written for AVX-512, where products of them are.
void convert_to_bf16(std::span<const float> values, std::uint16_t* destination);

}  // namespace nibble
