#include <bit>

#include "core/matrix/dtype.h"
#include "model/gguf/blocks/block_decode.h"
#include "model/gguf/blocks/block_grids.h"
#include "model/gguf/blocks/block_load.h"

namespace nibble::model::decode {
namespace {

constexpr float kIq2Values[4]{8, 25, 43, 0};  // code 3 does not occur
constexpr float kIq3XxsValues[8]{4, 12, 20, 28, 36, 44, 52, 62};
constexpr float kIq1Delta = 0.125f;

struct Iq2Xxs {
  std::uint16_t d;
  std::uint16_t words[32];  // of each 32 weights 4: two of grid indices, 8 bits each; two of signs and scale
};
struct Iq2Xs {
  std::uint16_t d;
  std::uint16_t codes[32];  // of 8 weights each: 9 bits of grid, 7 of signs
  std::uint8_t scales[8];   // of 16 weights, 4 bits each
};
struct Iq2S {
  std::uint16_t d;
  std::uint8_t codes[32], signs[32];  // of 8 weights each
  std::uint8_t high[8];               // bits 8 and 9 of the grid indices
  std::uint8_t scales[8];
};
struct Iq3Xxs {
  std::uint16_t d;
  std::uint8_t codes[64];     // of 4 weights each
  std::uint16_t words[8][2];  // of each 32 weights: signs and scale
};
struct Iq3S {
  std::uint16_t d;
  std::uint8_t codes[64];  // of 4 weights each
  std::uint8_t high[8];    // bit 8 of the grid indices
  std::uint8_t signs[32];
  std::uint8_t scales[4];  // of 32 weights, 4 bits each
};
struct Iq1S {
  std::uint16_t d;
  std::uint8_t codes[32];  // of 8 weights each
  std::uint16_t high[8];   // of 32 weights: bits 8 to 10 of 4 indices, 3 of scale, the sign of delta
};
struct Iq1M {
  std::uint8_t codes[32];
  std::uint8_t high[16];    // of 8 weights 4 bits each: bits 8 to 10 of the index, the sign of delta
  std::uint16_t scales[4];  // 3 bits for each 16 weights; the top 4 bits of all are the bits of d
};
static_assert(sizeof(Iq2Xxs) == 66 && sizeof(Iq2Xs) == 74 && sizeof(Iq2S) == 82);
static_assert(sizeof(Iq3Xxs) == 98 && sizeof(Iq3S) == 110 && sizeof(Iq1S) == 50 && sizeof(Iq1M) == 56);

/// Signs of 8 weights from 7 bits: the eighth makes their number even.
unsigned with_parity(unsigned signs) { return signs | (static_cast<unsigned>(std::popcount(signs)) & 1u) << 7; }

/// 8 weights of IQ2: grid entry, and bit j set where weight j is negative.
void iq2_eight(unsigned entry, unsigned signs, float scale, float* values) {
  for (unsigned j = 0; j < 8; ++j) {
    const float magnitude = scale * kIq2Values[(entry >> (2 * j)) & 3];
    values[j] = (signs >> j & 1u) != 0 ? -magnitude : magnitude;
  }
}

}  // namespace

void iq2_xxs(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b) {
    const auto block = load<Iq2Xxs>(blocks);
    const float d = f16_to_f32(block.d);
    for (std::size_t s = 0; s < 8; ++s) {
      const std::uint16_t* const words = block.words + 4 * s;
      const std::uint32_t indices = words[0] | static_cast<std::uint32_t>(words[1]) << 16;
      const std::uint32_t signs = words[2] | static_cast<std::uint32_t>(words[3]) << 16;
      const float scale = d * (0.5f + static_cast<float>(signs >> 28)) * 0.25f;
      for (unsigned part = 0; part < 4; ++part, values += 8)
        iq2_eight(kIq2XxsGrid[indices >> (8 * part) & 255u], with_parity(signs >> (7 * part) & 127u), scale, values);
    }
  }
}

void iq2_xs(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b) {
    const auto block = load<Iq2Xs>(blocks);
    const float d = f16_to_f32(block.d);
    for (std::size_t part = 0; part < 32; ++part, values += 8) {
      const unsigned packed = unsigned{block.scales[part / 4]} >> (part / 2 % 2 * 4) & 15u;
      const float scale = d * (0.5f + static_cast<float>(packed)) * 0.25f;
      iq2_eight(kIq2XsGrid[block.codes[part] & 511u], with_parity(block.codes[part] >> 9), scale, values);
    }
  }
}

void iq2_s(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b) {
    const auto block = load<Iq2S>(blocks);
    const float d = f16_to_f32(block.d);
    for (std::size_t part = 0; part < 32; ++part, values += 8) {
      const unsigned packed = unsigned{block.scales[part / 4]} >> (part / 2 % 2 * 4) & 15u;
      const float scale = d * (0.5f + static_cast<float>(packed)) * 0.25f;
      const unsigned index = block.codes[part] | (unsigned{block.high[part / 4]} >> (part % 4 * 2) & 3u) << 8;
      iq2_eight(kIq2SGrid[index], block.signs[part], scale, values);
    }
  }
}

void iq3_xxs(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b) {
    const auto block = load<Iq3Xxs>(blocks);
    const float d = f16_to_f32(block.d);
    for (std::size_t s = 0; s < 8; ++s) {
      const std::uint32_t packed = block.words[s][0] | static_cast<std::uint32_t>(block.words[s][1]) << 16;
      const float scale = d * (0.5f + static_cast<float>(packed >> 28)) * 0.5f;
      for (unsigned j = 0; j < 32; ++j) {
        const unsigned entry = kIq3XxsGrid[block.codes[8 * s + j / 4]];
        const float magnitude = scale * kIq3XxsValues[entry >> (4 * (j % 4)) & 7u];
        const unsigned signs = with_parity(packed >> (7 * (j / 8)) & 127u);
        values[j] = (signs >> (j % 8) & 1u) != 0 ? -magnitude : magnitude;
      }
      values += 32;
    }
  }
}

void iq3_s(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b) {
    const auto block = load<Iq3S>(blocks);
    const float d = f16_to_f32(block.d);
    for (std::size_t s = 0; s < 8; ++s, values += 32) {
      const unsigned packed = unsigned{block.scales[s / 2]} >> (s % 2 * 4) & 15u;
      const float scale = d * static_cast<float>(1 + 2 * packed);
      for (unsigned j = 0; j < 32; ++j) {
        const unsigned index = block.codes[8 * s + j / 4] | (block.high[s] >> (j / 4) & 1u) << 8;
        const float magnitude = scale * static_cast<float>(1 + 2 * (unsigned{kIq3SGrid[index]} >> (4 * (j % 4)) & 7u));
        values[j] = (unsigned{block.signs[4 * s + j / 8]} >> (j % 8) & 1u) != 0 ? -magnitude : magnitude;
      }
    }
  }
}

void iq1_s(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b) {
    const auto block = load<Iq1S>(blocks);
    const float d = f16_to_f32(block.d);
    for (std::size_t s = 0; s < 8; ++s) {
      const unsigned high = block.high[s];
      const float scale = d * static_cast<float>(2 * (high >> 12 & 7u) + 1);
      const float delta = (high & 0x8000u) != 0 ? -kIq1Delta : kIq1Delta;
      for (unsigned part = 0; part < 4; ++part, values += 8) {
        const unsigned entry = kIq1Grid[block.codes[4 * s + part] | (high >> (3 * part) & 7u) << 8];
        for (unsigned j = 0; j < 8; ++j)
          values[j] = scale * (static_cast<float>(static_cast<int>(entry >> (2 * j) & 3u) - 1) + delta);
      }
    }
  }
}

void iq1_m(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t b = 0; b < count; ++b) {
    const auto block = load<Iq1M>(blocks);
    unsigned bits = 0;
    for (unsigned i = 0; i < 4; ++i) bits |= static_cast<unsigned>(block.scales[i] >> 12) << (4 * i);
    const float d = f16_to_f32(static_cast<std::uint16_t>(bits));
    for (unsigned part = 0; part < 32; ++part, values += 8) {
      const unsigned packed = unsigned{block.scales[part / 8]} >> (part / 2 % 4 * 3) & 7u;
      const float scale = d * static_cast<float>(2 * packed + 1);
      const unsigned high = unsigned{block.high[part / 2]} >> (part % 2 * 4) & 15u;
      const unsigned entry = kIq1Grid[block.codes[part] | (high & 7u) << 8];
      const float delta = (high & 8u) != 0 ? -kIq1Delta : kIq1Delta;
      for (unsigned j = 0; j < 8; ++j)
        values[j] = scale * (static_cast<float>(static_cast<int>(entry >> (2 * j) & 3u) - 1) + delta);
    }
  }
}

}  // namespace nibble::model::decode
