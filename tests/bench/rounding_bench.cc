// Block int4 rounding and nearest palette codes on one core: weights per second, and bytes moved (4 read, 1 written per
// weight) as a share of what a plain copy of the same traffic reaches in the same run. Results: docs/results/kmeans.md.
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/matrix_view.h"
#include "core/random.h"
#include "quant/algo/blocks/block_rounding.h"
#include "quant/algo/blocks/block_search.h"
#include "quant/algo/kmeans/palette.h"
#include "tests/bench/measure.h"

namespace {

using namespace nibble;
using namespace nibble::quant;

constexpr std::size_t kRows = 4096, kCols = 4096;

void report(const std::string& name, const bench::Timing& timing, double copy_bytes_per_second) {
  const double weights = static_cast<double>(kRows * kCols);
  const double bytes = 5.0 * weights / timing.median_seconds;
  fmt::print("{:36} {:8.2f} {:8.0f} {:8.0f} {:8.0f} {:8.2f} {:7.0f} %\n", name, timing.median_seconds * 1e3,
             weights / timing.median_seconds / 1e6, weights / timing.max_seconds / 1e6,
             weights / timing.min_seconds / 1e6, bytes / 1e9, 100.0 * bytes / copy_bytes_per_second);
}

}  // namespace

int main() {
  set_thread_count(1);
  Random random(1);
  Matrix<float> w(kRows, kCols);
  for (float& value : w.values()) value = static_cast<float>(random.uniform() - 0.5);
  fmt::print("kernels: {}; {} x {}\n", isa_name(active_isa()), kRows, kCols);
  fmt::print("{:36} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9}\n", "case", "ms", "Mw/s", "worst", "best", "GB/s", "of copy");

  std::vector<float> copy(w.size() * 5 / 8);  // reads and writes 5 bytes per weight together
  const auto copying = bench::measure(9, [&] { std::memcpy(copy.data(), w.data(), copy.size() * sizeof(float)); });
  const double copy_rate = 5.0 * static_cast<double>(w.size()) / copying.median_seconds;
  report("memcpy of as many bytes", copying, copy_rate);

  const std::vector<std::pair<std::string, BlockScale>> rules{{"extreme-8", BlockScale::kExtreme},
                                                              {"absmax-7", BlockScale::kAbsmax},
                                                              {"absmax-7.5", BlockScale::kAbsmaxHalf},
                                                              {"minmax", BlockScale::kMinmax}};
  for (const auto& [name, rule] : rules) {
    BlockRounding rounded;
    const auto timing = bench::measure(9, [&] { rounded = round_blocks(w, {.bits = 4, .block = 32, .scale = rule}); });
    report("int4-block 32 " + name, timing, copy_rate);
  }
  // Searched scales, on a 64th of the weights; of their memory traffic there is little to say.
  const MatrixView<const float> few = w.view().block(0, 0, kRows / 8, kCols / 8);
  Matrix<float> sensitivities(few.rows(), few.cols()), hessian(few.cols(), few.cols());
  for (float& value : sensitivities.values()) value = static_cast<float>(random.uniform());
  for (std::size_t i = 0; i < hessian.rows(); ++i)
    for (std::size_t j = 0; j < hessian.cols(); ++j) hessian(i, j) = i == j ? 1.0f : 0.1f;
  const auto report_search = [&](const std::string& name, const bench::Timing& timing) {
    fmt::print("{:36} {:8.2f} {:8.1f}\n", name, timing.median_seconds * 1e3,
               static_cast<double>(few.rows() * few.cols()) / timing.median_seconds / 1e6);
  };
  for (const auto& [name, rule] : rules) {
    const BlockRoundingOptions options{.bits = 4, .block = 32, .scale = rule};
    report_search("search weighted " + name,
                  bench::measure(5, [&] { (void)search_blocks(few, sensitivities, options); }));
    report_search("search hessian " + name,
                  bench::measure(3, [&] { (void)search_blocks_hessian(few, hessian, options); }));
  }
  std::vector<std::uint8_t> codes(w.size());
  for (const std::size_t k : {4u, 16u, 64u, 256u}) {
    std::vector<float> centroids(k);
    for (std::size_t c = 0; c < k; ++c) centroids[c] = static_cast<float>(c) / static_cast<float>(k) - 0.5f;
    const auto timing = bench::measure(9, [&] { assign_codes(w.values(), centroids, codes); });
    report(fmt::format("nearest of {} centroids", k), timing, copy_rate);
  }
}
