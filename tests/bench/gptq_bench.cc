// Error feedback (GPTQ) and coordinate descent against their matrix-product floor: m·n² multiply-adds through
// parallel_gemm(), measured in the same run. Results: docs/results/gptq.md.
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/gemm.h"
#include "core/matrix_view.h"
#include "core/random.h"
#include "core/thread_pool.h"
#include "quant/algo/codebook_update.h"
#include "quant/algo/column_rounding.h"
#include "quant/algo/coordinate_descent.h"
#include "quant/algo/error_feedback.h"
#include "quant/algo/hessian.h"
#include "quant/algo/palettize.h"
#include "tests/bench/measure.h"

namespace {

using namespace nibble;
using namespace nibble::quant;

Matrix<float> random_matrix(std::size_t rows, std::size_t cols, std::uint64_t seed) {
  Random random(seed);
  Matrix<float> matrix(rows, cols);
  for (float& value : matrix.values()) value = static_cast<float>(random.uniform() - 0.5);
  return matrix;
}

/// XᵀX / N of inputs that are neighbours' means, so that they correlate.
Matrix<float> correlated_hessian(std::size_t n) {
  Matrix<float> x = random_matrix(n + n / 4, n, 2);
  for (std::size_t t = 0; t < x.rows(); ++t)
    for (std::size_t j = 1; j < n; ++j) x(t, j) = 0.5f * (x(t, j) + x(t, j - 1));
  Matrix<float> h(n, n);
  parallel_gemm<float>(Transpose::kYes, Transpose::kNo, 1.0f / static_cast<float>(x.rows()), x, x, 0.0f, h);
  return h;
}

void report(const std::string& name, const bench::Timing& timing, double floor_seconds) {
  fmt::print("  {:44} {:8.3f} s [{:.3f}, {:.3f}]  {:5.2f} x floor\n", name, timing.median_seconds, timing.min_seconds,
             timing.max_seconds, timing.median_seconds / floor_seconds);
}

void run(std::size_t m, std::size_t n) {
  const Matrix<float> w = random_matrix(m, n, 1), h = correlated_hessian(n);
  Matrix<float> product(m, n);
  const auto floor =
      bench::measure(3, [&] { parallel_gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, w, h, 0.0f, product); });
  const double seconds = floor.median_seconds;
  const double operations = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(n);
  fmt::print("{} x {}: {:.1f} G multiply-adds/s\n", m, n, operations / seconds / 1e9);
  report("floor: m·n² through parallel_gemm", floor, seconds);

  HessianFactor factor;
  report("factor", bench::measure(3, [&] { factor = factor_hessian<float>(h.view(), {}); }), seconds);
  GridRounding grid(w, {.bits = 4, .block = 0, .scale = BlockScale::kMinmax}, true);
  FeedbackResult result;
  report("feedback, uniform per row", bench::measure(3, [&] { result = round_with_feedback(w, factor, grid); }),
         seconds);
  GridRounding blocks(w, {.bits = 4, .block = 32}, true);
  report("feedback, int4 blocks of 32", bench::measure(3, [&] { result = round_with_feedback(w, factor, blocks); }),
         seconds);
  for (const std::size_t group_rows : {0u, 1u}) {
    const Palettization palette = palettize(w, {}, {.bits = 4, .group_rows = group_rows});
    PaletteRounding rounding(palette.palettes, group_rows, {});
    const std::string kind = group_rows == 0 ? "palette per tensor" : "palette per row";
    report("feedback, " + kind, bench::measure(3, [&] { result = round_with_feedback(w, factor, rounding); }), seconds);
    Matrix<std::uint8_t> codes;
    report("descent, 1 sweep, " + kind,
           bench::measure(1,
                          [&] {
                            codes = palette.codes;
                            coordinate_descent(w, h, rounding, 1, codes);
                          }),
           seconds);
  }
  const auto whole = bench::measure(3, [&] {
    factor = factor_hessian<float>(h.view(), {});
    result = round_with_feedback(w, factor, grid);
  });
  report("factor + feedback, uniform per row", whole, seconds);
  const double size = static_cast<double>(n), own = size * size * size / 3.0 + operations / 2.0;
  fmt::print("  that needs n³/3 + m·n²/2 multiply-adds: {:.2f} x the time of a product of as many\n",
             whole.median_seconds / seconds * operations / own);
  for (const std::size_t group_rows : {0u, 1u}) {
    const Palettization palette = palettize(w, {}, {.bits = 4, .group_rows = group_rows});
    PaletteWeight weight{.palettes = palette.palettes, .group_rows = group_rows, .scales = {}, .codes = palette.codes};
    report(group_rows == 0 ? "update of one palette" : "update of a palette per row",
           bench::measure(1, [&] { update_palettes(w, h, DType::kF16, weight); }), seconds);
  }
}

}  // namespace

int main() {
  fmt::print("{}, {} threads; median [min, max] of 3\n", gemm_identity(), thread_count());
  run(768, 3072);
  run(4096, 4096);
  return 0;
}
