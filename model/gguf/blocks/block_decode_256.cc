
#include "core/matrix/dtype.h"
#include "model/gguf/blocks/block_decode.h"
#include "model/gguf/blocks/block_load.h"
#include "model/gguf/blocks/super_blocks.h"

namespace nibble::model::decode {
namespace {

struct Q2_K {
  std::uint8_t scales[16];  // of 16 weights each: scale below, minimum above
  std::uint8_t codes[64];
  std::uint16_t d, least;
};
struct Q4_K {
  std::uint16_t d, least;
  std::uint8_t scales[12];
  std::uint8_t codes[128];
};
struct Q5_K {
  std::uint16_t d, least;
  std::uint8_t scales[12];
  std::uint8_t fifth[32];  // bit s of byte l: the fifth bit of weight 32 s + l
  std::uint8_t codes[128];
};
struct Q6_K {
  std::uint8_t low[128];
  std::uint8_t high[64];
  std::int8_t scales[16];
  std::uint16_t d;
};
struct Q8_K {
  float d;
  std::int8_t codes[kSuperBlock];
  std::int16_t sums[16];  // of 16 codes each: for products, not for values
};
struct Tq1 {
  std::uint8_t first[32], second[16], third[4];
  std::uint16_t d;
};
struct Tq2 {
  std::uint8_t codes[64];
  std::uint16_t d;
};
static_assert(sizeof(Q2_K) == 84 && sizeof(Q4_K) == 144 && sizeof(Q5_K) == 176);
static_assert(sizeof(Q6_K) == 210 && sizeof(Q8_K) == 292);
static_assert(sizeof(Tq1) == 54 && sizeof(Tq2) == 66);

/// The scales and minimums, 6 bits each, of the 8 sub-blocks of Q4_K and Q5_K. Sub-blocks 0 to 3 have theirs in the low
/// 6 bits of bytes 0 to 3 and 4 to 7; of 4 to 7, the low 4 bits are the nibbles of bytes 8 to 11 (the scale below) and
/// the high 2 bits lie above those of the first four.
struct SixBits {
  std::uint32_t scale[8], least[8];

  explicit SixBits(const std::uint8_t* packed) {
    for (std::size_t i = 0; i < 4; ++i) {
      scale[i] = packed[i] & 63u;
      least[i] = packed[i + 4] & 63u;
      scale[i + 4] = (packed[i + 8] & 0x0fu) | (packed[i] & 0xc0u) >> 2;
      least[i + 4] = (packed[i + 8] & 0xf0u) >> 4 | (packed[i + 4] & 0xc0u) >> 2;
    }
  }
};

/// Two bits of each of 32 bytes.
void two_bits(const std::uint8_t* bytes, unsigned shift, std::int32_t* codes) {
  for (std::size_t l = 0; l < 32; ++l) codes[l] = (bytes[l] >> shift) & 3;
}

}  // namespace

// Where codes have 2 bits, weight 128 n + 32 s + l is in bits 2s and 2s + 1 of byte 32 n + l.

void q2_k(const std::byte* blocks, std::size_t count, float* values) {
  std::int32_t codes[32];
  for (std::size_t b = 0; b < count; ++b) {
    const auto block = load<Q2_K>(blocks);
    const float d = f16_to_f32(block.d), least = f16_to_f32(block.least);
    for (unsigned s = 0; s < 8; ++s, values += 32) {
      two_bits(block.codes + s / 4 * 32, 2 * (s % 4), codes);
      for (std::size_t part = 0; part < 2; ++part) {
        const std::uint8_t packed = block.scales[2 * s + part];
        const float scale = d * static_cast<float>(packed & 15), minimum = least * static_cast<float>(packed >> 4);
        for (std::size_t l = 16 * part; l < 16 * part + 16; ++l)
          values[l] = scale * static_cast<float>(codes[l]) - minimum;
      }
    }
  }
}

void q3_k(const std::byte* blocks, std::size_t count, float* values) {
  std::int32_t codes[32];
  for (std::size_t b = 0; b < count; ++b) {
    const auto block = load<Q3_K>(blocks);
    const float d = f16_to_f32(block.d);
    for (unsigned s = 0; s < 8; ++s, values += 32) {
      two_bits(block.codes + s / 4 * 32, 2 * (s % 4), codes);
      for (std::size_t l = 0; l < 32; ++l) codes[l] += ((block.third[l] >> s) & 1) * 4 - 4;
      for (std::size_t part = 0; part < 2; ++part) {
        const unsigned i = 2 * s + static_cast<unsigned>(part);
        const int low = i < 8 ? block.scales[i] & 15 : block.scales[i - 8] >> 4;
        const int high = (block.scales[8 + i % 4] >> (2 * (i / 4))) & 3;
        const float scale = d * static_cast<float>((low | high << 4) + kLeastMultiple);
        for (std::size_t l = 16 * part; l < 16 * part + 16; ++l) values[l] = scale * static_cast<float>(codes[l]);
      }
    }
  }
}

// Where codes have 4 bits or more, byte 32 c + l holds the low 4 of weight 64 c + l, and above them those of 32 more.

void q4_k(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b) {
    const auto block = load<Q4_K>(blocks);
    const float d = f16_to_f32(block.d), least = f16_to_f32(block.least);
    const SixBits packed(block.scales);
    for (std::size_t c = 0; c < 4; ++c, values += 64) {
      const float scale0 = d * static_cast<float>(packed.scale[2 * c]);
      const float scale1 = d * static_cast<float>(packed.scale[2 * c + 1]);
      const float least0 = least * static_cast<float>(packed.least[2 * c]);
      const float least1 = least * static_cast<float>(packed.least[2 * c + 1]);
      const std::uint8_t* const codes = block.codes + 32 * c;
      for (std::size_t l = 0; l < 32; ++l) {
        values[l] = scale0 * static_cast<float>(codes[l] & 15) - least0;
        values[l + 32] = scale1 * static_cast<float>(codes[l] >> 4) - least1;
      }
    }
  }
}

void q5_k(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b) {
    const auto block = load<Q5_K>(blocks);
    const float d = f16_to_f32(block.d), least = f16_to_f32(block.least);
    const SixBits packed(block.scales);
    for (std::size_t s = 0; s < 8; ++s, values += 32) {
      const float scale = d * static_cast<float>(packed.scale[s]);
      const float minimum = least * static_cast<float>(packed.least[s]);
      const std::uint8_t* const codes = block.codes + s / 2 * 32;
      for (std::size_t l = 0; l < 32; ++l) {
        const int code = ((codes[l] >> (s % 2 * 4)) & 15) | ((block.fifth[l] >> s) & 1) << 4;
        values[l] = scale * static_cast<float>(code) - minimum;
      }
    }
  }
}

void q6_k(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b) {
    const auto block = load<Q6_K>(blocks);
    const float d = f16_to_f32(block.d);
    for (std::size_t s = 0; s < 8; ++s, values += 32) {  // low bits: sub-blocks 0, 1 below 2, 3; 4, 5 below 6, 7
      const std::uint8_t* const low = block.low + s / 4 * 64 + s % 2 * 32;
      const std::uint8_t* const high = block.high + s / 4 * 32;
      const std::size_t low_shift = s % 4 / 2 * 4, high_shift = s % 4 * 2;
      for (std::size_t part = 0; part < 2; ++part) {
        const float scale = d * static_cast<float>(block.scales[2 * s + part]);
        for (std::size_t l = 16 * part; l < 16 * part + 16; ++l) {
          const int code = ((low[l] >> low_shift) & 15) | ((high[l] >> high_shift) & 3) << 4;
          values[l] = scale * static_cast<float>(code - 32);
        }
      }
    }
  }
}

void q8_k(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b, values += kSuperBlock) {
    const auto block = load<Q8_K>(blocks);
    for (std::size_t j = 0; j < kSuperBlock; ++j) values[j] = block.d * static_cast<float>(block.codes[j]);
  }
}

void iq4_xs(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b) {
    const auto block = load<Iq4Xs>(blocks);
    const float d = f16_to_f32(block.d);
    for (unsigned s = 0; s < 8; ++s, values += 32) {
      const int low = (block.scales_low[s / 2] >> (s % 2 * 4)) & 15, high = (block.scales_high >> (2 * s)) & 3;
      const float scale = d * static_cast<float>((low | high << 4) + kLeastMultiple);
      const std::uint8_t* const codes = block.codes + 16 * s;
      for (std::size_t j = 0; j < 16; ++j) {
        values[j] = scale * kIq4Table[codes[j] & 15u];
        values[j + 16] = scale * kIq4Table[codes[j] >> 4];
      }
    }
  }
}

namespace {

/// `digits` planes of `width` weights, -1, 0 or 1: a byte is a fraction of 256 whose ternary digits they are, the first
/// plane's first.
float* ternary(const std::uint8_t* bytes, std::size_t width, unsigned digits, float d, float* values) {
  unsigned power = 1;
  for (unsigned digit = 0; digit < digits; ++digit, power *= 3) {
    for (std::size_t j = 0; j < width; ++j) {
      const unsigned rest = (bytes[j] * power) & 255u;
      values[j] = d * static_cast<float>(static_cast<int>(rest * 3 >> 8) - 1);
    }
    values += width;
  }
  return values;
}

}  // namespace

void tq1_0(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b) {
    const auto block = load<Tq1>(blocks);
    const float d = f16_to_f32(block.d);
    values = ternary(block.first, 32, 5, d, values);
    values = ternary(block.second, 16, 5, d, values);
    values = ternary(block.third, 4, 4, d, values);
  }
}

void tq2_0(const std::byte* blocks, std::size_t count, float* values) {
  std::int32_t codes[32];
  for (std::size_t b = 0; b < count; ++b) {
    const auto block = load<Tq2>(blocks);
    const float d = f16_to_f32(block.d);
    for (unsigned s = 0; s < 8; ++s, values += 32) {
      two_bits(block.codes + s / 4 * 32, 2 * (s % 4), codes);
      for (std::size_t l = 0; l < 32; ++l) values[l] = d * static_cast<float>(codes[l] - 1);
    }
  }
}

}  // namespace nibble::model::decode
