#include "quant/kernels/packing/window_packing.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/machine/thread_pool.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kMostStep = 4;

// One input's share of a panel: 16 · step bytes of its stream, and the one that follows.
void place_window_input(const WindowLayout& layout, const std::uint8_t* bytes, std::size_t input, std::uint8_t* panel) {
  const std::size_t half = input / kHalfInputs, t = input % kUnitInputs;
  std::uint8_t* unit = panel + layout.units_at(half) + input % kHalfInputs / kUnitInputs * layout.unit_bytes() + 2 * t;
  for (std::size_t chunk = 0; chunk < kChunks; ++chunk)
    for (std::size_t v = 0; v < layout.step; ++v, bytes += 2) std::memcpy(unit + 64 * v + 8 * chunk, bytes, 2);
  panel[layout.after_at(half) + input % kHalfInputs] = *bytes;
}

}  // namespace

HugeBuffer pack_window_streams(const WindowLayout& layout, std::size_t rows, std::size_t cols,
                               std::span<const std::byte> streams, std::size_t column_bytes) {
  NIBBLE_REQUIRE(WindowLayout::holds(layout.step, layout.bits), InvalidArgument,
                 "windows of {} bits, {} bits apart: no packed layout for them", layout.bits, layout.step);
  NIBBLE_REQUIRE(rows > 0 && column_bytes > 0 &&
                     column_bytes >= divide_up((rows - 1) * layout.step + layout.bits, std::size_t{8}) &&
                     streams.size() / column_bytes >= cols,
                 InvalidArgument, "windows: {} streams of {} bytes, too few for {} rows of {} inputs",
                 column_bytes == 0 ? 0 : streams.size() / column_bytes, column_bytes, rows, cols);
  const std::size_t panel_bytes = layout.panel_bytes(cols), panel_stream = kWindowRows / 8 * layout.step;
  HugeBuffer codes(layout.panels(rows) * panel_bytes);
  parallel_for(layout.panels(rows), [&](std::size_t panel) {
    std::uint8_t* destination = codes.data() + panel * panel_bytes;
    std::memset(destination, 0, panel_bytes);
    const std::size_t first = panel * panel_stream;
    for (std::size_t input = 0; input < cols; ++input) {
      std::array<std::uint8_t, kWindowRows / 8 * kMostStep + 1> bytes{};
      std::memcpy(bytes.data(), streams.data() + input * column_bytes + first,
                  std::min(panel_stream + 1, column_bytes - first));
      place_window_input(layout, bytes.data(), input, destination);
    }
  });
  return codes;
}

}  // namespace nibble::quant
