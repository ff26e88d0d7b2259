#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// The matrix registers of AMX. Only *_amx.cc include this.
namespace nibble::quant {
namespace {

/// Whatever was written lies in memory before a tile is loaded: of the intrinsics' operands GCC 12 knows too little.
inline void flush_stores(const void* written) { __asm__ volatile("" : : "r"(written) : "memory"); }

/// What the registers hold while it lasts: 0 to 3 sums, 16 lines of 16; 4 and 5 left operands, 16 lines of `kBytes`;
/// 6 and 7 right operands, kBytes / 4 lines of 16 fours of bytes. It costs some tens of cycles, and a thread that keeps
/// none set up is switched faster.
template <std::size_t kBytes = 64>
class AmxTiles {
 public:
  AmxTiles() {
    Configuration configuration;
    for (std::size_t i = 0; i < 8; ++i) {
      const bool left = i == 4 || i == 5, right = i > 5;
      configuration.bytes[i] = left ? kBytes : 64;
      configuration.lines[i] = right ? kBytes / 4 : 16;
    }
    flush_stores(&configuration);
    _tile_loadconfig(&configuration);
  }
  ~AmxTiles() { _tile_release(); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

 private:
  struct alignas(64) Configuration {
    std::uint8_t palette = 1, first_line = 0, reserved[14] = {};
    std::uint16_t bytes[16] = {};  // of a line, by register
    std::uint8_t lines[16] = {};
  };
};

}  // namespace
}  // namespace nibble::quant
