#pragma once

#include <cstddef>
#include <cstdint>

// How windowed palettes lie in memory for the kernels. Plain arithmetic only: per-ISA files include this.
//
// The code of weight (i, j) is `bits` bits wide and starts at bit i · step of the stream of input j, step < bits: codes
// of rows that follow each other overlap. The rows are cut into panels of 128, a panel into eight chunks of 16 rows,
// 16 · step bits of each stream, `step` words of 16 bits. Four inputs of a panel are a unit of `step` vectors of 64
// bytes: word 4 w + t of vector v is word v of input t's chunk w.
//
//     bytes 8 w … 8 w + 7 of a vector: chunk w, two bytes each of inputs 0 1 2 3
//
// So a window lies within a word or two words of the same place in this vector and the next one (after the last one:
// the first one, a chunk on), and eight consecutive bytes hold windows of four inputs, as products of bytes in lanes of
// 32 bits need them: windows are cut where they lie, nothing moves between inputs. A group is 64 inputs: first one byte
// per input, the stream's bits after the panel's own, for the windows of its last rows, then 16 units.
namespace nibble::quant {

constexpr std::size_t kWindowRows = 128;  ///< of a panel
constexpr std::size_t kChunkRows = 16, kChunks = kWindowRows / kChunkRows;
constexpr std::size_t kUnitInputs = 4, kGroupInputs = 64;
constexpr std::size_t kHalfInputs = 32;  ///< of a group: what kernels take at a time
constexpr std::size_t kHalfUnits = kHalfInputs / kUnitInputs;

struct WindowLayout {
  unsigned step = 0;  ///< k, 1 to 4; 0: no windows
  unsigned bits = 0;  ///< L, up to 10

  /// Whether the byte after a panel is enough for its last windows.
  static constexpr bool holds(unsigned step, unsigned bits) {
    return step >= 1 && step <= 4 && bits > step && bits <= 10 && bits - step <= 8;
  }
  // Inlined always: files compiled for other processors include this, and the linker may keep any copy
  // (cmake/isa.cmake).
  [[gnu::always_inline]] constexpr std::size_t entries() const { return std::size_t{1} << bits; }
  [[gnu::always_inline]] constexpr std::size_t unit_bytes() const { return 64 * std::size_t{step}; }
  [[gnu::always_inline]] constexpr std::size_t half_bytes() const { return kHalfUnits * unit_bytes(); }
  [[gnu::always_inline]] constexpr std::size_t group_bytes() const { return kGroupInputs + 2 * half_bytes(); }
  constexpr std::size_t padded_inputs(std::size_t cols) const {
    return (cols + kGroupInputs - 1) / kGroupInputs * kGroupInputs;
  }
  constexpr std::size_t panels(std::size_t rows) const { return (rows + kWindowRows - 1) / kWindowRows; }
  constexpr std::size_t panel_bytes(std::size_t cols) const {
    return padded_inputs(cols) / kGroupInputs * group_bytes();
  }
  /// Of a half group, 32 inputs, within its panel: its units, and its bytes after the panel.
  [[gnu::always_inline]] constexpr std::size_t units_at(std::size_t half) const {
    return half / 2 * group_bytes() + kGroupInputs + half % 2 * half_bytes();
  }
  [[gnu::always_inline]] constexpr std::size_t after_at(std::size_t half) const {
    return half / 2 * group_bytes() + half % 2 * kHalfInputs;
  }
};

/// Decoded floats of an input stand as vectors hold them: lane 4 l + i of vector 4 e + g is row 32 l + 16 e + 4 g + i.
[[gnu::always_inline]] constexpr std::size_t float_place(std::size_t row) {
  const std::size_t chunk = row / kChunkRows;
  return (chunk % 2 * 4 + row % kChunkRows / 4) * 16 + chunk / 2 * 4 + row % 4;
}

/// Bytes of four inputs, in lanes of 32 bits: lane 2 w + h of vector m is row 16 w + 2 m + h.
[[gnu::always_inline]] constexpr std::size_t byte_place(std::size_t row) {
  return row % kChunkRows / 2 * 16 + row / kChunkRows * 2 + row % 2;
}

}  // namespace nibble::quant
