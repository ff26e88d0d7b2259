#include <bit>
#include <cstring>

#include "core/matrix/dtype.h"
#include "model/gguf/blocks/block_decode.h"
#include "model/gguf/blocks/block_load.h"

namespace nibble::model::decode {
namespace {

constexpr std::size_t kHalf32 = 16, kWeights32 = 32;

struct Q4_0 {
  std::uint16_t d;
  std::uint8_t nibbles[kHalf32];
};
struct Q4_1 {
  std::uint16_t d, m;
  std::uint8_t nibbles[kHalf32];
};
struct Q5_0 {
  std::uint16_t d;
  std::uint8_t fifth[4];
  std::uint8_t nibbles[kHalf32];
};
struct Q5_1 {
  std::uint16_t d, m;
  std::uint8_t fifth[4];
  std::uint8_t nibbles[kHalf32];
};
struct Q8_0 {
  std::uint16_t d;
  std::int8_t codes[kWeights32];
};
struct Mxfp4 {
  std::uint8_t exponent;
  std::uint8_t nibbles[kHalf32];
};
static_assert(sizeof(Q4_0) == 18 && sizeof(Q4_1) == 20 && sizeof(Q5_0) == 22 && sizeof(Q5_1) == 24);
static_assert(sizeof(Q8_0) == 34 && sizeof(Mxfp4) == 17);

/// Codes 0 to 31 of nibbles and fifth bits.
void five_bits(const std::uint8_t* nibbles, const std::uint8_t* fifth, std::int32_t* codes) {
  std::uint32_t word = 0;
  std::memcpy(&word, fifth, 4);
  for (std::size_t j = 0; j < kHalf32; ++j) {
    codes[j] = static_cast<std::int32_t>((nibbles[j] & 15u) | ((word >> j) & 1u) << 4);
    codes[j + kHalf32] = static_cast<std::int32_t>((nibbles[j] >> 4) | ((word >> (j + kHalf32)) & 1u) << 4);
  }
}

/// 2^(e - 128): what E8M0 means by e, halved because the table of FP4 is doubled. e = 0 and 1 are subnormal; e = 255,
/// NaN in the standard of microscaling, is 2^127 to those who write such files.
float half_power(std::uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : static_cast<std::uint32_t>(e - 1) << 23);
}

/// Half of what four bits of exponent (bias 7) and three of mantissa mean; 0 for 0x7F, the code of NaN.
float half_e4m3(std::uint8_t bits) {
  const int exponent = (bits >> 3) & 15;
  const auto mantissa = static_cast<float>(bits & 7);
  if (bits == 0 || bits == 0x7F) return 0.0f;
  if (exponent == 0) return mantissa * 0x1p-10f;
  return (1.0f + mantissa / 8.0f) * std::bit_cast<float>(static_cast<std::uint32_t>(exponent - 8 + 127) << 23);
}

}  // namespace

void q4_0(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b, values += kWeights32) {
    const auto block = load<Q4_0>(blocks);
    const float d = f16_to_f32(block.d);
    for (std::size_t j = 0; j < kHalf32; ++j) {
      values[j] = d * static_cast<float>((block.nibbles[j] & 15) - 8);
      values[j + kHalf32] = d * static_cast<float>((block.nibbles[j] >> 4) - 8);
    }
  }
}

void q4_1(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b, values += kWeights32) {
    const auto block = load<Q4_1>(blocks);
    const float d = f16_to_f32(block.d), m = f16_to_f32(block.m);
    for (std::size_t j = 0; j < kHalf32; ++j) {
      values[j] = d * static_cast<float>(block.nibbles[j] & 15) + m;
      values[j + kHalf32] = d * static_cast<float>(block.nibbles[j] >> 4) + m;
    }
  }
}

void q5_0(const std::byte* blocks, std::size_t count, float* values) {
  std::int32_t codes[kWeights32];
  for (std::size_t b = 0; b < count; ++b, values += kWeights32) {
    const auto block = load<Q5_0>(blocks);
    const float d = f16_to_f32(block.d);
    five_bits(block.nibbles, block.fifth, codes);
    for (std::size_t j = 0; j < kWeights32; ++j) values[j] = d * static_cast<float>(codes[j] - 16);
  }
}

void q5_1(const std::byte* blocks, std::size_t count, float* values) {
  std::int32_t codes[kWeights32];
  for (std::size_t b = 0; b < count; ++b, values += kWeights32) {
    const auto block = load<Q5_1>(blocks);
    const float d = f16_to_f32(block.d), m = f16_to_f32(block.m);
    five_bits(block.nibbles, block.fifth, codes);
    for (std::size_t j = 0; j < kWeights32; ++j) values[j] = d * static_cast<float>(codes[j]) + m;
  }
}

void q8_0(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b, values += kWeights32) {
    const auto block = load<Q8_0>(blocks);
    const float d = f16_to_f32(block.d);
    for (std::size_t j = 0; j < kWeights32; ++j) values[j] = static_cast<float>(block.codes[j]) * d;
  }
}

void iq4_nl(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b, values += kWeights32) {
    const auto block = load<Q4_0>(blocks);  // the same layout
    const float d = f16_to_f32(block.d);
    for (std::size_t j = 0; j < kHalf32; ++j) {
      values[j] = d * kIq4Table[block.nibbles[j] & 15u];
      values[j + kHalf32] = d * kIq4Table[block.nibbles[j] >> 4];
    }
  }
}

void mxfp4(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b, values += kWeights32) {
    const auto block = load<Mxfp4>(blocks);
    const float d = half_power(block.exponent);
    for (std::size_t j = 0; j < kHalf32; ++j) {
      values[j] = d * kFp4Table[block.nibbles[j] & 15u];
      values[j + kHalf32] = d * kFp4Table[block.nibbles[j] >> 4];
    }
  }
}

void nvfp4(const std::byte* blocks, std::size_t count, float* values) {
  constexpr std::size_t kParts = 4, kPartHalf = 8;
  struct Nvfp4 {
    std::uint8_t scales[kParts];
    std::uint8_t nibbles[kParts][kPartHalf];
  };
  static_assert(sizeof(Nvfp4) == 36);
  for (std::size_t b = 0; b < count; ++b) {
    const auto block = load<Nvfp4>(blocks);
    for (std::size_t part = 0; part < kParts; ++part, values += 2 * kPartHalf) {
      const float d = half_e4m3(block.scales[part]);
      for (std::size_t j = 0; j < kPartHalf; ++j) {
        values[j] = d * kFp4Table[block.nibbles[part][j] & 15u];
        values[j + kPartHalf] = d * kFp4Table[block.nibbles[part][j] >> 4];
      }
    }
  }
}

}  // namespace nibble::model::decode
