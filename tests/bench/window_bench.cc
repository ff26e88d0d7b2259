// Viterbi search over windows on one core: weights per second by bits and window_bits, and the mean squared error that
// fitted palettes reach on fresh Gaussian values. Results: docs/results/windowed.md.
#include <fmt/format.h>

#include <vector>

#include "core/isa.h"
#include "core/matrix_view.h"
#include "core/random.h"
#include "core/thread_pool.h"
#include "quant/algo/window_rounding.h"
#include "quant/algo/window_search.h"
#include "quant/algo/windowed_palette.h"
#include "tests/bench/measure.h"

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

double fresh_error(unsigned bits, unsigned window_bits) {
  const auto fit = palettize_windows(gaussian(1024, 256, 3), {}, {.bits = bits, .window_bits = window_bits});
  const Matrix<float> fresh = gaussian(1024, 64, 4);
  const WindowRounding rounding(fit.weight.palettes.row(0), bits, fresh.rows(), {});
  std::vector<float> column(fresh.rows()), decoded(fresh.rows());
  std::vector<std::uint16_t> codes(fresh.rows());
  double sum = 0.0;
  for (std::size_t j = 0; j < fresh.cols(); ++j) {
    for (std::size_t i = 0; i < fresh.rows(); ++i) column[i] = fresh(i, j);
    rounding.round(j, 0, column, codes.data(), decoded.data());
    for (std::size_t i = 0; i < fresh.rows(); ++i) sum += (column[i] - decoded[i]) * (column[i] - decoded[i]);
  }
  return sum / static_cast<double>(fresh.size());
}

}  // namespace

int main() {
  set_thread_count(1);
  fmt::print("kernels: {}; M weights/s on one core: median, least, most of 25\n", isa_name(active_isa()));
  fmt::print("bits   window   median    least     most\n");
  for (const unsigned bits : {1u, 2u, 3u, 4u})
    for (const unsigned window_bits : {6u, 8u, 10u}) measure_search(bits, window_bits);
  fmt::print("\nmean squared error on fresh Gaussian values\nbits   window    error\n");
  for (const unsigned bits : {2u, 3u})
    for (const unsigned window_bits : {6u, 8u, 10u})
      fmt::print("{:4} {:8} {:8.4f}\n", bits, window_bits, fresh_error(bits, window_bits));
}
