// Error feedback (GPTQ), coordinate descent and that of coupled rows against their matrix-product floor: m·n²
// multiply-adds through parallel_gemm(), measured in the same run. Results: docs/results/gptq.md.
//
//   gptq_bench [ROWS INPUTS [feedback|descent|coupled]]     (768 3072 and 4096 4096, all parts)
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "core/matrix/matrix_view.h"
#include "core/random.h"
#include "quant/algo/blocks/grid_columns.h"
#include "quant/algo/palettes/palette_columns.h"
#include "quant/algo/palettes/palettize.h"
#include "quant/algo/rounding/column_rounding.h"
#include "quant/algo/solve/codebook_update.h"
#include "quant/algo/solve/coordinate_descent.h"
#include "quant/algo/solve/coupled_descent.h"
#include "quant/algo/solve/error_feedback.h"
#include "quant/algo/solve/hessian.h"
#include "quant/algo/solve/refine_palettes.h"
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

/// One shape: its weight, its Hessian, and the floor.
class Bench {
 public:
  Bench(std::size_t m, std::size_t n)
      : w_(random_matrix(m, n, 1)),
        h_(correlated_hessian(n)),
        operations_(static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(n)) {
    Matrix<float> product(m, n);
    const auto floor =
        bench::measure(3, [&] { parallel_gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, w_, h_, 0.0f, product); });
    floor_seconds_ = floor.median_seconds;
    fmt::print("{} x {}: {:.1f} G multiply-adds/s\n", m, n, operations_ / floor_seconds_ / 1e9);
    report("floor: m·n² through parallel_gemm", floor);
  }

  void feedback() {
    HessianFactor factor;
    report("factor", bench::measure(3, [&] { factor = factor_hessian<float>(h_.view(), {}); }));
    const auto time = [&](const std::string& name, ColumnRounding& rounding) {
      report("feedback, " + name, bench::measure(3, [&] { (void)round_with_feedback(w_, factor, rounding); }));
    };
    GridRounding grid(w_, {.bits = 4, .block = 0, .scale = BlockScale::kMinmax}, true);
    time("uniform per row", grid);
    GridRounding blocks(w_, {.bits = 4, .block = 32}, true);
    time("int4 blocks of 32", blocks);
    for (const std::size_t group_rows : {0u, 1u}) {
      const Palettization palette = palettize(w_, {}, {.bits = 4, .group_rows = group_rows});
      PaletteRounding entries(palette.palettes, group_rows, {});
      time(group_rows == 0 ? "one palette" : "palette per row", entries);
    }
    const auto whole = bench::measure(3, [&] {
      factor = factor_hessian<float>(h_.view(), {});
      (void)round_with_feedback(w_, factor, grid);
    });
    report("factor + feedback, uniform per row", whole);
    const double size = static_cast<double>(w_.cols()), own = size * size * size / 3.0 + operations_ / 2.0;
    fmt::print("  that needs n³/3 + m·n²/2 multiply-adds: {:.2f} x the time of a product of as many\n",
               whole.median_seconds / floor_seconds_ * operations_ / own);
  }

  void descent() const {
    for (const std::size_t group_rows : {0u, 1u}) {
      const std::string kind = group_rows == 0 ? "one palette" : "palette per row";
      const Palettization palette = palettize(w_, {}, {.bits = 4, .group_rows = group_rows});
      const PaletteRounding rounding(palette.palettes, group_rows, {});
      Matrix<std::uint8_t> codes;
      report("descent, 1 sweep and both losses, " + kind, bench::measure(1, [&] {
               codes = palette.codes;
               coordinate_descent(w_, h_, rounding, 1, codes);
             }));
      PaletteWeight weight{
          .palettes = palette.palettes, .group_rows = group_rows, .scales = {}, .codes = palette.codes};
      report("palettes under H, " + kind, bench::measure(1, [&] { update_palettes(w_, h_, DType::kF16, weight); }));
    }
  }

  void coupled() const {
    const Matrix<float> h_out = correlated_hessian(w_.rows());
    const Palettization palette = palettize(w_, {}, {.bits = 4});
    const PaletteRounding rounding(palette.palettes, 0, {});
    Matrix<std::uint8_t> codes;
    for (const std::size_t sweeps : {0u, 1u, 3u})
      report(fmt::format("coupled descent, {} sweeps and both losses", sweeps), bench::measure(1, [&] {
               codes = palette.codes;
               coupled_descent(w_, h_, h_out, rounding, sweeps, codes);
             }));
    PaletteWeight weight{.palettes = palette.palettes, .scales = {}, .codes = palette.codes};
    report("coupled, 4 rounds of palettes and scales", bench::measure(1, [&] {
             refine_palettes(w_, h_, nullptr, {.iterations = 4, .sweeps = kMostCoupledSweeps, .scales = true}, weight,
                             h_out);
           }));
  }

 private:
  void report(const std::string& name, const bench::Timing& timing) const {
    fmt::print("  {:50} {:8.3f} s [{:.3f}, {:.3f}]  {:5.2f} x floor\n", name, timing.median_seconds, timing.min_seconds,
               timing.max_seconds, timing.median_seconds / floor_seconds_);
  }

  Matrix<float> w_, h_;
  double operations_, floor_seconds_ = 0.0;
};

}  // namespace

int main(int count, char** arguments) {
  const std::string_view only = count > 3 ? arguments[3] : "";
  if (count == 2 || count > 4 || !(only.empty() || only == "feedback" || only == "descent" || only == "coupled")) {
    fmt::print(stderr, "gptq_bench: expected [ROWS INPUTS [feedback|descent|coupled]], got '{}'\n",
               fmt::join(arguments + 1, arguments + count, " "));
    return 2;
  }
  fmt::print("{}, {} threads; median [min, max] of 3\n", gemm_identity(), thread_count());
  const auto run = [&](std::size_t m, std::size_t n) {
    Bench bench(m, n);
    if (only.empty() || only == "feedback") bench.feedback();
    if (only.empty() || only == "descent") bench.descent();
    if (only.empty() || only == "coupled") bench.coupled();
  };
  if (count == 1) {
    run(768, 3072);
    run(4096, 4096);
  } else {
    run(std::strtoull(arguments[1], nullptr, 10), std::strtoull(arguments[2], nullptr, 10));
  }
}
