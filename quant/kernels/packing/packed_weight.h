#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quant/format/quantized_tensor.h"
#include "quant/format/windowed_codes.h"
#include "quant/kernels/packing/code_layout.h"
#include "quant/kernels/packing/huge_buffer.h"
#include "quant/kernels/packing/packed_kind.h"
#include "quant/kernels/packing/window_layout.h"

namespace nibble::quant {

/// y = step · sum + lowest · total (byte_tables, below): where the values of a palette lie far apart both terms leave
/// float32, although their sum, of few or of small values, does not. This leaves room for scales of rows and inputs of
/// 2^32 together; float16 palettes reach 2^17.
inline constexpr float kWidestRangeInBytes = 0x1p96f;

/// A quantized weight in memory as the kernels read it: codes rearranged (code_layout.h), everything small as float.
/// Rows beyond the last panel's own hold code 0 and scale 0; inputs beyond cols code 0 and the scale of the row's last
/// block: their activations are zeros.
struct PackedWeight {
  PackedKind kind = PackedKind::kSharedPalette;
  CodeLayout layout{4, kPanelRows};
  std::size_t rows = 0, cols = 0;
  unsigned middle = 0;        ///< blocks: 2^(bits-1) of the format's width; block palettes: what is 0 of their bytes
  HugeBuffer codes;           ///< (panels, units, unit_bytes)
  std::vector<float> tables;  ///< (palettes, entries); blocks of up to 4 bits: one table of code - middle
  /// For int8 mode: palettes of up to 6 bits in bytes, (palettes, byte_entries()): entry = step · byte + lowest within
  /// step / 2, step = (highest - lowest) / 255, or 1 of a grid with a scale for each row, whose bytes are its codes.
  /// Block palettes: entry = step (byte - middle), step what their integers are a multiple of, else the largest
  /// magnitude / 127. Empty where a palette's values lie further apart than kWidestRangeInBytes.
  std::vector<std::uint8_t> byte_tables;
  WindowLayout windows;                       ///< instead of `kind` and `layout`, if step > 0
  std::vector<std::uint8_t> byte_planes;      ///< windows of up to 8 bits: WindowTables::planes
  std::vector<float> byte_step, byte_lowest;  ///< (rows), palettes: step and lowest times the row's scale
                                              ///< (block palettes: step alone)
  std::size_t rows_per_table = 0;             ///< 0: one table for all rows
  HugeBuffer block_scales;                    ///< (panels, blocks, 16) float16; block palettes: over row_scale
  HugeBuffer block_zeros;                     ///< (panels, blocks, 16) bytes, empty for symmetric blocks
  std::vector<float> row_scale;               ///< (rows), empty: 1
  std::vector<std::int32_t> outlier_rows, outlier_columns;  ///< CSR; empty without outliers
  std::vector<float> outlier_values;

  bool windowed() const { return windows.step > 0; }
  /// Whether what codes stand for is there in bytes, for int8 mode: codes of blocks are bytes themselves.
  bool has_bytes() const { return kind == PackedKind::kBlocks || !byte_tables.empty(); }
  bool block_palette() const { return kind == PackedKind::kBlockPalette || kind == PackedKind::kHalfBlockPalette; }
  bool scaled_blocks() const { return kind == PackedKind::kBlocks || block_palette(); }
  std::size_t entries() const { return std::size_t{1} << layout.bits; }
  /// Entries of a byte table: they repeat to fill a lane of 16 bytes.
  std::size_t byte_entries() const { return entries() < 16 ? 16 : entries(); }
  std::size_t blocks() const { return layout.padded_inputs(cols) / inputs_per_block(kind); }
  const float* table_of(std::size_t row) const {
    return tables.data() + (rows_per_table == 0 ? 0 : row / rows_per_table * entries());
  }
  /// Of byte_tables, less what is there twice so that kernels need not look: windows have fewer entries than 256.
  std::size_t byte_entries_read() const { return windowed() ? tables.size() : byte_tables.size(); }
  /// What a product reads: tables of floats, or those of bytes for int8 mode.
  std::uint64_t bytes(bool in_bytes = false) const;
};

/// Whether there is a packed layout for the tensor: scalar palettes, windowed ones unless their windows overlap by
/// more than 8 bits (WindowLayout::holds()); blocks of a multiple of 32 inputs (with a palette: of
/// 16), or whole rows.
bool can_pack(const TensorSpec& spec);

/// The same of a tensor: E8M0 scales that differ by more than 2^39 within a row do not fit either.
bool can_pack(const QuantizedTensor& tensor);

/// Requires can_pack(). Reads the tensor once, on all threads.
PackedWeight pack_weight(const QuantizedTensor& tensor);

/// Streams of windows (quant/format/windowed_codes.h), the palette of all of them (2^window_bits) and a scale per row,
/// or none, as the kernels read them. `integer_step`: what one is of a palette of integers from -127 to 127, 0 for
/// others; such entries are themselves in int8 mode, others rounded to 255 steps. Throws InvalidArgument for sizes that
/// are not the layout's and for windows without a packed layout (WindowLayout::holds()).
PackedWeight pack_windows(const WindowedLayout& layout, std::span<const std::byte> streams,
                          std::span<const float> palette, std::vector<float> row_scale, float integer_step = 0.0f);

}  // namespace nibble::quant
