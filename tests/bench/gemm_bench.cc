// Which library stands behind core/matrix/gemm.h? One thread, Y = X Wᵀ on the layer shapes of GPT-2 and Llama-3.1-8B
// and on the tiles that DecodingLinear hands out. Prints GFLOP/s, median of 5 runs. Results: docs/results/gemm.md.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/machine/isa.h"
#include "core/matrix/gemm.h"
#include "core/random.h"
#include "tests/bench/gemm_eigen.h"
#include "tests/bench/measure.h"
#if NIBBLE_HAVE_OPENBLAS
#include <cblas.h>
#endif

namespace {

using namespace nibble;

struct Shape {
  std::string what;
  std::size_t m, n, k;
};
const std::vector<Shape> kShapes{
    {"tile of a 384-wide layer", 256, 128, 384},
    {"tile of a 4096-wide layer", 256, 128, 4096},
    {"attention scores, one tile", 128, 128, 64},
    {"gpt2 c_attn", 512, 2304, 768},
    {"gpt2 mlp.c_fc", 512, 3072, 768},
    {"gpt2 mlp.c_proj", 512, 768, 3072},
    {"llama-8b q_proj", 512, 4096, 4096},
    {"llama-8b k_proj", 512, 1024, 4096},
    {"llama-8b up_proj", 512, 14336, 4096},
    {"llama-8b down_proj", 512, 4096, 14336},
};

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.uniform() - 0.5);
  return values;
}

double gigaflops(const Shape& s, const std::function<void()>& product) {
  const double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  const auto inner = std::max<std::size_t>(1, static_cast<std::size_t>(5e9 / flops));
  const auto timing = bench::measure(5, [&] {
    for (std::size_t i = 0; i < inner; ++i) product();
  });
  return flops * static_cast<double>(inner) / timing.median_seconds / 1e9;
}

}  // namespace

int main() {
  fmt::print("door: {}\n", gemm_identity());
#if NIBBLE_HAVE_OPENBLAS
  openblas_set_num_threads(1);
  fmt::print("OpenBLAS: {} (set OPENBLAS_CORETYPE=SkylakeX to force AVX-512)\n", openblas_get_config());
#endif
  fmt::print("{:28} {:>6} {:>6} {:>6} {:>8} {:>10} {:>8}\n", "shape", "m", "n", "k", "door", "Eigen-512", "OpenBLAS");
  for (const Shape& s : kShapes) {
    const auto a = random_values(s.m * s.k, 1), b = random_values(s.n * s.k, 2);
    std::vector<float> c(s.m * s.n);
    const double door = gigaflops(s, [&] {
      gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, {a.data(), s.m, s.k}, {b.data(), s.n, s.k}, 0.0f,
                  {c.data(), s.m, s.n});
    });
    const double eigen512 =
        supports_isa(Isa::kAvx512)
            ? gigaflops(s, [&] { bench::eigen_avx512_sgemm(s.m, s.n, s.k, a.data(), b.data(), c.data()); })
            : 0.0;
    double openblas = 0.0;
#if NIBBLE_HAVE_OPENBLAS
    openblas = gigaflops(s, [&] {
      const auto dim = [](std::size_t n) { return static_cast<blasint>(n); };
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, dim(s.m), dim(s.n), dim(s.k), 1.0f, a.data(), dim(s.k),
                  b.data(), dim(s.k), 0.0f, c.data(), dim(s.n));
    });
#endif
    fmt::print("{:28} {:6} {:6} {:6} {:8.1f} {:10.1f} {:8.1f}\n", s.what, s.m, s.n, s.k, door, eigen512, openblas);
  }
}
