// How fast packed weights are multiplied with many tokens in int8 or bf16 mode, on the layer shapes of Llama-3.2-1B:
// GFLOP/s (two per weight and token) beside float32 products of the matrix library in the same run, and their share of
// the most that VNNI can do, four int8 products for one in float32. Arguments: threads (0: all), repeats, tokens, mode.
#include <fmt/format.h>

#include <cstdlib>

#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "core/random.h"
#include "eval/speed/machine.h"
#include "quant/kernels/linear/packed_linear.h"
#include "tests/bench/measure.h"
#include "tests/quant/kernels/example_tensors.h"

namespace {

using namespace nibble;
using quant::Coding;

struct Case {
  const char* name;
  test::TensorWish wish;
};

Matrix<float> random_matrix(std::size_t rows, std::size_t cols) {
  Random random(2);
  Matrix<float> m(rows, cols);
  for (float& value : m.values()) value = static_cast<float>(random.normal());
  return m;
}

double library_rate(std::size_t rows, std::size_t cols, std::size_t tokens, std::size_t repeats) {
  const Matrix<float> x = random_matrix(tokens, cols), w = random_matrix(rows, cols);
  Matrix<float> y(tokens, rows);
  const auto timing =
      bench::measure(repeats, [&] { parallel_gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, x, w, 0.0f, y); });
  return 2.0 * static_cast<double>(rows * cols * tokens) / timing.median_seconds;
}

void run(Case test_case, std::size_t rows, std::size_t cols, std::size_t tokens, std::size_t repeats, double peak,
         quant::Compute compute) {
  test_case.wish.spec.rows = rows;
  test_case.wish.spec.cols = cols;
  Random random(1);
  const auto op = quant::make_packed_linear(test::random_tensor(test_case.wish, random), {}, compute);
  const Matrix<float> x = random_matrix(tokens, cols);
  Matrix<float> y(tokens, rows);
  const auto timing = bench::measure(repeats, [&] { op->forward(x, y); });
  const auto rate = [&](double seconds) { return 2.0 * static_cast<double>(rows * cols * tokens) / seconds; };
  fmt::print("  {:20} {:24} {:8.2f} ms {:7.0f} ({:.0f} to {:.0f}) GFLOP/s {:5.1f} %\n", test_case.name,
             op->kernel_name(), timing.median_seconds * 1e3, rate(timing.median_seconds) / 1e9,
             rate(timing.max_seconds) / 1e9, rate(timing.min_seconds) / 1e9, 100 * rate(timing.median_seconds) / peak);
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 0);
  const std::size_t repeats = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 5;
  const std::size_t tokens = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 512;
  const auto compute = quant::compute_from_name(argc > 4 ? argv[4] : "int8").value();
  const double peak = 4 * eval::measure_peak_flops();
  fmt::print("{} threads, {}, {} tokens, at most {:.0f} GFLOP/s by VNNI\n", thread_count(), isa_name(active_isa()),
             tokens, peak / 1e9);
  const Case cases[] = {{"int4-block 32", {{Coding::kBlocks, 0, 0, 4, 32, 1}}},
                        {"int4-block 32 zeros", {{Coding::kBlocks, 0, 0, 4, 32, 1}, false, true}},
                        {"palette 4 channel", {{Coding::kPalette, 0, 0, 4, 1, 1}}},
                        {"palette 4 tensor", {{Coding::kPalette, 0, 0, 4, 0, 1}, true}}};
  for (const auto& [rows, cols] :
       {std::pair<std::size_t, std::size_t>{512, 2048}, {2048, 2048}, {8192, 2048}, {2048, 8192}}) {
    fmt::print("{} x {}: float32 {:.0f} GFLOP/s\n", rows, cols, library_rate(rows, cols, tokens, repeats) / 1e9);
    for (const Case& test_case : cases) run(test_case, rows, cols, tokens, repeats, peak, compute);
  }
  return 0;
}
