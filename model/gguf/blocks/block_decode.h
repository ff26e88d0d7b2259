#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nibble::model::decode {

// Decoders of block_types.cc's table. Layouts, little-endian, in the order of the bytes; d, m: binary16; u: unsigned
// code; "nibbles": byte j holds code j below and code j + 16 above.

void f32(const std::byte* blocks, std::size_t count, float* values);
void f16(const std::byte* blocks, std::size_t count, float* values);
void bf16(const std::byte* blocks, std::size_t count, float* values);
void f64(const std::byte* blocks, std::size_t count, float* values);  ///< rounded to float, half to even

// 32 weights
void q4_0(const std::byte* blocks, std::size_t count, float* values);    ///< d, nibbles: (u - 8) d
void q4_1(const std::byte* blocks, std::size_t count, float* values);    ///< d, m, nibbles: u d + m
void q5_0(const std::byte* blocks, std::size_t count, float* values);    ///< d, 32 fifth bits, nibbles: (u - 16) d
void q5_1(const std::byte* blocks, std::size_t count, float* values);    ///< d, m, 32 fifth bits, nibbles: u d + m
void q8_0(const std::byte* blocks, std::size_t count, float* values);    ///< d, 32 int8: q d
void iq4_nl(const std::byte* blocks, std::size_t count, float* values);  ///< d, nibbles: kIq4Table[u] d
void mxfp4(const std::byte* blocks, std::size_t count, float* values);   ///< e, nibbles: kFp4Table[u] 2^(e - 128)
// 64 weights in 4 sub-blocks of 16, whose nibbles pair code j with code j + 8
void nvfp4(const std::byte* blocks, std::size_t count, float* values);  ///< 4 E4M3 scales without sign, nibbles

// 256 weights
void q2_k(const std::byte* blocks, std::size_t count, float* values);
void q3_k(const std::byte* blocks, std::size_t count, float* values);
void q4_k(const std::byte* blocks, std::size_t count, float* values);
void q5_k(const std::byte* blocks, std::size_t count, float* values);
void q6_k(const std::byte* blocks, std::size_t count, float* values);
void q8_k(const std::byte* blocks, std::size_t count, float* values);
void iq4_xs(const std::byte* blocks, std::size_t count, float* values);
void iq1_s(const std::byte* blocks, std::size_t count, float* values);
void iq1_m(const std::byte* blocks, std::size_t count, float* values);
void iq2_xxs(const std::byte* blocks, std::size_t count, float* values);
void iq2_xs(const std::byte* blocks, std::size_t count, float* values);
void iq2_s(const std::byte* blocks, std::size_t count, float* values);
void iq3_xxs(const std::byte* blocks, std::size_t count, float* values);
void iq3_s(const std::byte* blocks, std::size_t count, float* values);
void tq1_0(const std::byte* blocks, std::size_t count, float* values);
void tq2_0(const std::byte* blocks, std::size_t count, float* values);

/// The 16 values of IQ4_NL and IQ4_XS.
inline constexpr std::array<float, 16> kIq4Table{-127, -104, -83, -65, -49, -35, -22, -10,
                                                 1,    13,   25,  38,  53,  69,  89,  113};
/// Twice the 16 values of FP4 (E2M1): sign, two bits of exponent, one of mantissa.
inline constexpr std::array<float, 16> kFp4Table{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace nibble::model::decode
