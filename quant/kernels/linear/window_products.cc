#include "quant/kernels/linear/window_products.h"

#include <algorithm>
#include <array>

#include "core/machine/thread_pool.h"
#include "quant/kernels/linear/packed_products.h"
#include "quant/kernels/linear/token_groups.h"
#include "quant/kernels/windows/window_kernels.h"

namespace nibble::quant {
namespace {

using Places = std::array<std::size_t, kWindowRows>;
constexpr Places places_by(std::size_t (*place)(std::size_t)) {
  Places places{};
  for (std::size_t row = 0; row < kWindowRows; ++row) places[row] = place(row);
  return places;
}
constexpr Places kFloatPlaces = places_by(float_place), kBytePlaces = places_by(byte_place);

// action(first panel, panels, first row, rows that exist), on all threads.
template <class Action>
void for_panel_runs(const PackedWeight& w, const Action& action) {
  const std::size_t panels = w.windows.panels(w.rows);
  parallel_for_tiles(panels, run_length(panels, w.windows.panel_bytes(w.cols)),
                     [&](std::size_t begin, std::size_t end) {
                       const std::size_t first = begin * kWindowRows;
                       action(begin, end - begin, first, std::min(w.rows - first, (end - begin) * kWindowRows));
                     });
}

std::size_t place_of(const Places& places, std::size_t row) {
  return row / kWindowRows * kWindowRows + places[row % kWindowRows];
}

}  // namespace

WindowTables window_tables(const PackedWeight& w) {
  const bool small = w.windows.bits <= 8;
  return {w.tables.data(), small ? w.byte_planes.data() : nullptr, small ? w.byte_tables.data() : nullptr};
}

void multiply_windows(const PackedWeight& w, std::span<const float> bias, MatrixView<const float> x,
                      MatrixView<float> y) {
  const std::size_t padded = w.windows.padded_inputs(w.cols);
  thread_local Activations activations;
  Activations& arranged = activations;  // the calling thread's, for all threads
  arrange_activations(x, padded, false, false, arranged);
  const WindowKernels& kernels = select_window_kernels(w.windows);
  for_panel_runs(w, [&](std::size_t panel, std::size_t panels, std::size_t first, std::size_t rows) {
    thread_local std::vector<float> sums;
    const std::size_t all = panels * kWindowRows, panel_bytes = w.windows.panel_bytes(w.cols);
    sums.resize(x.rows() * all);
    kernels.matvec({w.codes.data() + panel * panel_bytes, panels, panel_bytes, padded / kHalfInputs, w.windows,
                    window_tables(w), arranged.values.data(), arranged.stride, x.rows(), sums.data(), all});
    for (std::size_t t = 0; t < x.rows(); ++t) {
      const std::span<float> out = y.row(t);
      const float* token = sums.data() + t * all;
      for (std::size_t i = 0; i < rows; ++i) out[first + i] = token[place_of(kFloatPlaces, i)];
      if (!w.row_scale.empty())
        for (std::size_t i = 0; i < rows; ++i) out[first + i] *= w.row_scale[first + i];
      add_outliers_and_bias(w, bias, x.row(t), first, rows, out);
    }
  });
}

void multiply_windows_int8(const PackedWeight& w, std::span<const float> bias, std::span<const float> x,
                           std::span<float> y) {
  const std::size_t padded = w.windows.padded_inputs(w.cols);
  thread_local QuantizedActivations quantized;
  QuantizedActivations& q = quantized;  // the calling thread's, for all threads
  quantize_activations(x, padded, active_int8_matvec().quantize, {}, q);
  const WindowInt8Kernels& kernels = *select_window_int8_kernels(w.windows);
  for_panel_runs(w, [&](std::size_t panel, std::size_t panels, std::size_t first, std::size_t rows) {
    thread_local std::vector<float> sums;
    const std::size_t panel_bytes = w.windows.panel_bytes(w.cols);
    sums.resize(panels * kWindowRows);
    kernels.matvec({w.codes.data() + panel * panel_bytes, panels, panel_bytes, padded / kHalfInputs, w.windows,
                    window_tables(w), q.values.data(), q.scales.data(), q.sums.data(), sums.data()});
    for (std::size_t i = 0; i < rows; ++i)
      y[first + i] = w.byte_step[first + i] * sums[place_of(kBytePlaces, i)] + w.byte_lowest[first + i] * q.total;
    add_outliers_and_bias(w, bias, x, first, rows, y);
  });
}

void decode_windows(const PackedWeight& w, std::size_t begin, std::size_t end, float* destination,
                    std::size_t row_stride, std::size_t input_stride) {
  const WindowKernels& kernels = select_window_kernels(w.windows);
  alignas(64) std::array<float, kHalfInputs * kWindowRows> decoded;
  for (std::size_t row = begin; row < end;) {
    const std::size_t panel = row / kWindowRows, stop = std::min(end, (panel + 1) * kWindowRows);
    const std::uint8_t* codes = w.codes.data() + panel * w.windows.panel_bytes(w.cols);
    for (std::size_t first = 0; first < w.cols; first += kHalfInputs) {
      kernels.decode(w.windows, window_tables(w), codes, first / kHalfInputs, decoded.data());
      for (std::size_t j = 0; j < std::min(kHalfInputs, w.cols - first); ++j) {
        float* to = destination + (row - begin) * row_stride + (first + j) * input_stride;
        for (std::size_t r = row; r < stop; ++r, to += row_stride) {
          const float entry = decoded[j * kWindowRows + kFloatPlaces[r % kWindowRows]];
          *to = w.row_scale.empty() ? entry : w.row_scale[r] * entry;
        }
      }
    }
    row = stop;
  }
}

}  // namespace nibble::quant
