// Viterbi search over windows on one core: weights per second by bits and window_bits, and the mean squared error that
// palettes reach on fresh Gaussian values, fitted ones and those that other programs compute. Results:
// docs/results/windowed.md.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "core/matrix/matrix_view.h"
#include "core/random.h"
#include "quant/algo/windows/window_search.h"
#include "quant/algo/windows/windowed_palette.h"
#include "tests/bench/measure.h"
#include "tests/quant/algo/windows/window_error.h"

namespace {

using namespace nibble;
using namespace nibble::quant;

Matrix<float> gaussian(std::size_t rows, std::size_t cols, std::uint64_t seed) {
  Random random(seed);
  Matrix<float> w(rows, cols);
  for (float& value : w.values()) value = static_cast<float>(random.normal());
  return w;
}

void measure_search(unsigned bits, unsigned window_bits) {
  constexpr std::size_t kRows = 2048, kColumns = 4;
  const Matrix<float> targets = gaussian(kColumns, kRows, 1), palette = gaussian(1, std::size_t{1} << window_bits, 2);
  const std::vector<float> factors(kRows, 1.0f);
  std::vector<std::uint16_t> codes(kRows);
  WindowSearch search(palette.row(0), bits, window_bits);
  const auto timing = bench::measure(25, [&] {
    for (std::size_t j = 0; j < kColumns; ++j) search.search(targets.row(j), factors, codes);
  });
  const double weights = kRows * kColumns * 1e-6;
  fmt::print("{:4} {:8} {:8.1f} {:8.1f} {:8.1f}\n", bits, window_bits, weights / timing.median_seconds,
             weights / timing.max_seconds, weights / timing.min_seconds);
}

constexpr std::size_t kFreshRows = 1024, kFreshInputs = 64;

double fresh_error(unsigned bits, unsigned window_bits) {
  const auto fit = palettize_windows(gaussian(1024, 256, 3), {}, {.bits = bits, .window_bits = window_bits});
  return window_error(fit.weight.palettes.row(0), bits, gaussian(kFreshRows, kFreshInputs, 4));
}

/// A palette that is computed, not stored: for each window a linear congruence whose bits make two float16, added,
/// which is nearly normal (exllamav3's codebook "3INST", after QTIP, arXiv:2406.11235), as many windows as ours.
Matrix<float> computed_palette(unsigned window_bits) {
  Matrix<float> palette(1, std::size_t{1} << window_bits);
  double square = 0.0;
  for (std::uint32_t window = 0; window < palette.cols(); ++window) {
    const std::uint32_t mixed = ((window * 89226354u + 64248484u) & 0x8fff8fffu) ^ 0x3b603b60u;
    const std::uint16_t halves[2] = {static_cast<std::uint16_t>(mixed), static_cast<std::uint16_t>(mixed >> 16)};
    float values[2];
    convert_to_f32(DType::kF16, reinterpret_cast<const std::byte*>(halves), 2, values);
    palette(0, window) = values[0] + values[1];
    square += static_cast<double>(palette(0, window)) * static_cast<double>(palette(0, window));
  }
  const double deviation = std::sqrt(square / static_cast<double>(palette.cols()));
  for (float& value : palette.values()) value = static_cast<float>(static_cast<double>(value) / deviation);
  return palette;
}

/// With the best of 13 scales, chosen on other values than it is measured on.
double computed_error(unsigned bits, unsigned window_bits) {
  const Matrix<float> unit = computed_palette(window_bits), fitted = gaussian(512, 32, 3);
  Matrix<float> best = unit;
  double least = std::numeric_limits<double>::infinity();
  for (int step = -6; step <= 6; ++step) {
    Matrix<float> scaled = unit;
    for (float& value : scaled.values()) value *= 1.0f + 0.03f * static_cast<float>(step);
    const double error = window_error(scaled.row(0), bits, fitted);
    if (error < least) {
      least = error;
      best = std::move(scaled);
    }
  }
  return window_error(best.row(0), bits, gaussian(kFreshRows, kFreshInputs, 4));
}

}  // namespace

int main() {
  set_thread_count(1);
  fmt::print("kernels: {}; M weights/s on one core: median, least, most of 25\n", isa_name(active_isa()));
  fmt::print("bits   window   median    least     most\n");
  for (const unsigned bits : {1u, 2u, 3u, 4u})
    for (const unsigned window_bits : {6u, 8u, 10u}) measure_search(bits, window_bits);
  fmt::print("\nmean squared error on fresh Gaussian values\nbits   window   fitted computed\n");
  for (const unsigned bits : {2u, 3u})
    for (const unsigned window_bits : {6u, 8u, 10u})
      fmt::print("{:4} {:8} {:8.4f} {:8.4f}\n", bits, window_bits, fresh_error(bits, window_bits),
                 computed_error(bits, window_bits));
}
