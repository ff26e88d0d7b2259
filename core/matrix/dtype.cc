#include "core/matrix/dtype.h"

#include <array>
#include <cstring>

#include "core/error.h"
#include "core/machine/isa.h"
#include "core/matrix/dtype_kernels.h"

namespace nibble {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::size_t size;
};
constexpr std::array<Row, 16> kTable{{{DType::kF64, "F64", 8},
                                      {DType::kF32, "F32", 4},
                                      {DType::kF16, "F16", 2},
                                      {DType::kBF16, "BF16", 2},
                                      {DType::kI64, "I64", 8},
                                      {DType::kI32, "I32", 4},
                                      {DType::kI16, "I16", 2},
                                      {DType::kI8, "I8", 1},
                                      {DType::kU64, "U64", 8},
                                      {DType::kU32, "U32", 4},
                                      {DType::kU16, "U16", 2},
                                      {DType::kU8, "U8", 1},
                                      {DType::kBool, "BOOL", 1},
                                      {DType::kF8E4M3, "F8_E4M3", 1},
                                      {DType::kF8E5M2, "F8_E5M2", 1},
                                      {DType::kF8E8M0, "F8_E8M0", 1}}};

const Row& row_of(DType dtype) { return kTable[static_cast<std::size_t>(dtype)]; }

template <float (*Widen)(std::uint16_t)>
void widen_scalar(const void* source, std::size_t count, float* destination) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, static_cast<const std::byte*>(source) + 2 * i, 2);
    destination[i] = Widen(bits);
  }
}

template <std::uint16_t (*Narrow)(float)>
void narrow_scalar(const float* source, std::size_t count, void* destination) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t bits = Narrow(source[i]);
    std::memcpy(static_cast<std::byte*>(destination) + 2 * i, &bits, 2);
  }
}

void round_to_bf16_scalar(const float* source, std::size_t count, float* destination) {
  for (std::size_t i = 0; i < count; ++i) destination[i] = bf16_to_f32(f32_to_bf16(source[i]));
}

// All values of an 8-bit float, by code.
template <float (*Widen)(std::uint8_t)>
void widen_bytes(const std::byte* source, std::size_t count, float* destination) {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values{};
    for (std::size_t code = 0; code < values.size(); ++code) values[code] = Widen(static_cast<std::uint8_t>(code));
    return values;
  }();
  for (std::size_t i = 0; i < count; ++i) destination[i] = table[std::to_integer<std::uint8_t>(source[i])];
}

}  // namespace

std::string_view dtype_name(DType dtype) { return row_of(dtype).name; }
std::size_t dtype_size(DType dtype) { return row_of(dtype).size; }
bool is_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }
bool is_float8(DType dtype) { return dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Row& row : kTable)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1Fu;
  const std::uint32_t mantissa = bits & 0x3FFu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in float
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  if (exponent == 31) {  // infinity; a NaN comes out quiet, as the hardware conversions do
    const std::uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7F800000u | quiet | (mantissa << 13));
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

std::uint16_t f32_to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  const auto with_sign = [sign](std::uint32_t half) { return static_cast<std::uint16_t>(sign | half); };
  if (magnitude > 0x7F800000u) return with_sign(0x7E00u | ((magnitude >> 13) & 0x3FFu));
  if (magnitude >= 0x47800000u) return with_sign(0x7C00u);  // 65536 and more
  if (magnitude < 0x38800000u) {  // below 2^-14: subnormal; adding 0.5 lets the FPU round at bit 2^-24, half to even
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return with_sign(std::bit_cast<std::uint32_t>(shifted) - 0x3F000000u);
  }
  const std::uint32_t rebased = magnitude - (112u << 23);
  const std::uint32_t rounded = rebased + 0xFFFu + ((rebased >> 13) & 1u);  // half to even; may carry into infinity
  return with_sign(rounded >> 13);
}

std::uint16_t f32_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

float f8_e4m3_to_f32(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80u) << 24;
  const std::uint32_t exponent = (bits >> 3) & 0xFu, mantissa = bits & 0x7u;
  if ((bits & 0x7Fu) == 0x7Fu) return std::bit_cast<float>(sign | 0x7FC00000u);
  if (exponent == 0) {  // zero or subnormal
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 120u) << 23) | (mantissa << 20));
}

float f8_e8m0_to_f32(std::uint8_t bits) {
  if (bits == 0) return 0x1p-127f;  // subnormal in binary32
  return std::bit_cast<float>(bits == 255 ? 0x7FC00000u : static_cast<std::uint32_t>(bits) << 23);
}

void convert_to_f32(DType dtype, const std::byte* source, std::size_t count, float* destination) {
  if (count == 0) return;
  if (dtype == DType::kF32) {
    std::memcpy(destination, source, count * sizeof(float));
    return;
  }
  if (dtype == DType::kF8E4M3) return widen_bytes<f8_e4m3_to_f32>(source, count, destination);
  if (dtype == DType::kF8E5M2) return widen_bytes<f8_e5m2_to_f32>(source, count, destination);
  if (dtype == DType::kF8E8M0) return widen_bytes<f8_e8m0_to_f32>(source, count, destination);
  NIBBLE_REQUIRE(is_float(dtype), InvalidArgument, "convert_to_f32: expected F32, F16, BF16 or 8-bit floats, got {}",
                 dtype_name(dtype));
  const bool f16 = dtype == DType::kF16;
  static const auto from_f16 = choose_variant(
      widen_scalar<f16_to_f32>, NIBBLE_AVX2_VARIANT(dtype_kernels::f16_to_f32_avx2),
      NIBBLE_AVX512_VARIANT(dtype_kernels::f16_to_f32_avx512), NIBBLE_NEON_VARIANT(dtype_kernels::f16_to_f32_neon));
  static const auto from_bf16 = choose_variant(
      widen_scalar<bf16_to_f32>, NIBBLE_AVX2_VARIANT(dtype_kernels::bf16_to_f32_avx2),
      NIBBLE_AVX512_VARIANT(dtype_kernels::bf16_to_f32_avx512), NIBBLE_NEON_VARIANT(dtype_kernels::bf16_to_f32_neon));
  (f16 ? from_f16 : from_bf16)(source, count, destination);
}

void convert_to_f16(std::span<const float> values, std::uint16_t* destination) {
  if (values.empty()) return;
  static const auto kernel = choose_variant(
      narrow_scalar<f32_to_f16>, NIBBLE_AVX2_VARIANT(dtype_kernels::f32_to_f16_avx2),
      NIBBLE_AVX512_VARIANT(dtype_kernels::f32_to_f16_avx512), NIBBLE_NEON_VARIANT(dtype_kernels::f32_to_f16_neon));
  kernel(values.data(), values.size(), destination);
}

void round_to_bf16(std::span<const float> values, float* destination) {
  if (values.empty()) return;
  static const auto kernel =
      choose_variant(round_to_bf16_scalar, NIBBLE_AVX2_VARIANT(dtype_kernels::round_to_bf16_avx2),
                     NIBBLE_AVX512_VARIANT(dtype_kernels::round_to_bf16_avx512),
                     NIBBLE_NEON_VARIANT(dtype_kernels::round_to_bf16_neon));
  kernel(values.data(), values.size(), destination);
}

void convert_to_bf16(std::span<const float> values, std::uint16_t* destination) {
  if (values.empty()) return;
  static const auto kernel =
      choose_variant(narrow_scalar<f32_to_bf16>, nullptr, NIBBLE_AVX512_VARIANT(dtype_kernels::f32_to_bf16_avx512));
  kernel(values.data(), values.size(), destination);
}

}  // namespace nibble
