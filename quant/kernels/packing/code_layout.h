#pragma once

#include <cstddef>

// How packed codes lie in memory for the kernels. Plain arithmetic only: per-ISA files include this.
//
// A weight (rows, cols) is cut into panels of R rows, R = 16 or 1; a panel is a run of units along the inputs, and a
// unit is one to three vectors of 64 bytes. A vector has 16 lanes of 4 bytes, L = 16 / R lanes per row: row r of the
// panel owns bytes 4 L r … 4 L r + 4 L - 1. Each byte holds several codes, the fields: field f of byte o of row r is
// the code of input f · 4 L + o of the unit.
//
//     4 bits, R = 16:  one vector, 8 inputs    byte 4 r + o = code(r, o) | code(r, 4 + o) << 4
//     4 bits, R = 1:   one vector, 128 inputs  byte o       = code(o)    | code(64 + o) << 4
//
// So a shift and a table lookup per lane give 16 weights, of 16 rows (R = 16: x is broadcast, nothing is summed across
// lanes) or of one (R = 1: any row may have a palette of its own). Codes of 3 and 6 bits are split into planes: fields
// of the low 2 (4) bits in two vectors, of the high 1 (2) bits in a third.
namespace nibble::quant {

/// Inputs whose block scale, quantized activations and zero point belong together in the kernels.
constexpr std::size_t kBlockInputs = 32;
constexpr std::size_t kPanelRows = 16;  ///< R where rows share a palette or have none
constexpr std::size_t kVectorBytes = 64;

/// The width codes of `bits` are kept in: 5 as 6 bits, 7 as 8.
constexpr unsigned kept_bits(unsigned bits) { return bits == 5 ? 6 : bits == 7 ? 8 : bits; }

/// Place of a kept width among 1 2 3 4 6 8.
constexpr std::size_t width_index(unsigned kept) { return kept <= 4 ? kept - 1 : kept / 2 + 1; }

struct CodeLayout {
  unsigned bits;           ///< kept: 1 2 3 4 6 8
  std::size_t panel_rows;  ///< R

  constexpr unsigned low_bits() const { return bits == 3 ? 2 : bits == 6 ? 4 : bits; }  ///< of the first plane
  constexpr unsigned high_bits() const { return bits - low_bits(); }                    ///< of the second; 0 if none
  constexpr std::size_t fields() const { return 8 / (high_bits() != 0 ? high_bits() : low_bits()); }
  constexpr std::size_t unit_bytes() const { return kVectorBytes * bits * fields() / 8; }
  constexpr std::size_t row_bytes() const { return kVectorBytes / panel_rows; }  ///< 4 L
  constexpr std::size_t unit_inputs() const { return fields() * row_bytes(); }
  /// Inputs of a row in memory: whole units and whole blocks. Codes beyond the weight's own are 0.
  constexpr std::size_t padded_inputs(std::size_t cols) const {
    const std::size_t step = unit_inputs() > kBlockInputs ? unit_inputs() : kBlockInputs;
    return (cols + step - 1) / step * step;
  }
  constexpr std::size_t units(std::size_t cols) const { return padded_inputs(cols) / unit_inputs(); }
  constexpr std::size_t panels(std::size_t rows) const { return (rows + panel_rows - 1) / panel_rows; }
  constexpr std::size_t panel_bytes(std::size_t cols) const { return units(cols) * unit_bytes(); }

  /// Where one plane of a code lies: bits [shift, shift + width) of byte `byte` of its panel.
  struct Place {
    std::size_t byte;
    unsigned shift;
  };
  constexpr Place place(unsigned plane, std::size_t row, std::size_t input) const {
    const std::size_t field = input % unit_inputs() / row_bytes(), offset = input % row_bytes();
    const unsigned width = plane == 0 ? low_bits() : high_bits();
    const std::size_t per_vector = 8 / width, first = plane == 0 ? 0 : fields() * low_bits() / 8;
    const std::size_t vector = first + field / per_vector;
    return {input / unit_inputs() * unit_bytes() + vector * kVectorBytes + row * row_bytes() + offset,
            static_cast<unsigned>(field % per_vector) * width};
  }
};

}  // namespace nibble::quant
