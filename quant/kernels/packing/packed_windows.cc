#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "quant/kernels/packing/packed_weight.h"
#include "quant/kernels/packing/window_packing.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kTableBytes = 256;  // what kernels on bytes take of a table

// Byte p of every entry, lowest first.
std::vector<std::uint8_t> byte_planes(std::span<const float> palette) {
  std::vector<std::uint8_t> planes;
  for (unsigned p = 0; p < sizeof(float); ++p)
    for (std::size_t i = 0; i < kTableBytes; ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &palette[i % palette.size()], sizeof bits);
      planes.push_back(static_cast<std::uint8_t>(bits >> 8 * p));
    }
  return planes;
}

// entry = step · byte + lowest, within step / 2 or, with integers, just so.
void add_window_bytes(PackedWeight& packed, float integer_step) {
  const auto [least, most] = std::minmax_element(packed.tables.begin(), packed.tables.end());
  const float range = integer_step > 0.0f ? 255.0f * integer_step : *most - *least;
  if (range > kWidestRangeInBytes) return;
  const float step = integer_step > 0.0f ? integer_step : range / 255.0f;
  const float lowest = integer_step > 0.0f ? -128.0f * integer_step : *least;
  for (std::size_t i = 0; i < kTableBytes; ++i) {
    const float entry = packed.tables[i % packed.tables.size()];
    const float place = step > 0.0f ? std::min(255.0f, (entry - lowest) / step + 0.5f) : 0.0f;
    packed.byte_tables.push_back(static_cast<std::uint8_t>(place));
  }
  for (std::size_t row = 0; row < packed.rows; ++row) {
    const float scale = packed.row_scale.empty() ? 1.0f : packed.row_scale[row];
    packed.byte_step.push_back(scale * step);
    packed.byte_lowest.push_back(scale * lowest);
  }
}

}  // namespace

PackedWeight pack_windows(const WindowedLayout& layout, std::span<const std::byte> streams,
                          std::span<const float> palette, std::vector<float> row_scale, float integer_step) {
  layout.check();
  NIBBLE_REQUIRE(palette.size() == layout.entries() && (row_scale.empty() || row_scale.size() == layout.rows),
                 InvalidArgument, "windows: {} entries and {} scales, expected {} and {} or none", palette.size(),
                 row_scale.size(), layout.entries(), layout.rows);
  PackedWeight packed;
  packed.rows = layout.rows;
  packed.cols = layout.cols;
  packed.windows = {layout.bits, layout.window_bits};
  packed.codes = pack_window_streams(packed.windows, layout.rows, layout.cols, streams, layout.column_bytes());
  packed.tables.assign(palette.begin(), palette.end());
  packed.row_scale = std::move(row_scale);
  if (layout.window_bits > 8) return packed;
  packed.byte_planes = byte_planes(palette);
  add_window_bytes(packed, integer_step);
  return packed;
}

}  // namespace nibble::quant
