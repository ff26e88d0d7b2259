#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace nibble::quant {

/// Decodes palette codes byte by byte: for each of the 256 byte values, the 8 / bits palette entries that it stands
/// for. For widths that divide a byte: 1, 2, 4 and 8 bits. A lookup replaces unpacking, so a table pays once it decodes
/// some thousand codes.
class ByteTable {
 public:
  static constexpr bool has_width(unsigned bits) { return bits == 1 || bits == 2 || bits == 4 || bits == 8; }

  /// `palette` has 2^bits entries. Cost: 2048 / bits values.
  void build(std::span<const float> palette, unsigned bits);
  /// values[j] = palette[code j] for a row of packed codes (quant/format/codes.h) of the width built for.
  void decode(std::span<const std::byte> row, std::span<float> values) const;

 private:
  unsigned bits_ = 0;
  std::vector<float> table_;  // (256, 8 / bits)
};

}  // namespace nibble::quant
