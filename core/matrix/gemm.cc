#include "core/matrix/gemm.h"

#include <dnnl.h>
#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <mutex>
#include <type_traits>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/machine/handler_stack.h"
#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/eigen_gemm.h"
#include "core/matrix/gemm_library.h"

#if defined(__SANITIZE_ADDRESS__)
#define NIBBLE_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NIBBLE_ADDRESS_SANITIZER
#endif
#endif
#if defined(NIBBLE_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

/// Of GCC's OpenMP runtime, which the matrix library's threads are from, whatever compiler builds us (so not its
/// omp.h).
extern "C" void omp_set_num_threads(int threads);

namespace nibble {
namespace {

// What multiplies was compiled without sanitizers: they are asked here whether the operands are whole.
template <class T>
void check_memory([[maybe_unused]] MatrixView<T> m) {
#if defined(NIBBLE_ADDRESS_SANITIZER)
  for (std::size_t r = 0; r < m.rows() && m.cols() > 0; ++r) {
    const auto row = m.row(r);
    void* const start = const_cast<void*>(static_cast<const void*>(row.data()));
    if (const void* bad = __asan_region_is_poisoned(start, row.size_bytes()))
      static_cast<void>(*static_cast<const volatile char*>(bad));  // reported as any such access
  }
#endif
}

bool runs_eigen() { return kEigenForFloats || active_isa() == Isa::kScalar; }

void library_gemm(Transpose ta, Transpose tb, float alpha, MatrixView<const float> a, MatrixView<const float> b,
                  float beta, MatrixView<float> c) {
  prepare_gemm_library();
  const auto letter = [](Transpose t) { return t == Transpose::kYes ? 'T' : 'N'; };
  const auto dim = [](std::size_t n) { return static_cast<dnnl_dim_t>(n); };
  const std::size_t k = ta == Transpose::kYes ? a.rows() : a.cols();
  const dnnl_status_t status = dnnl_sgemm(letter(ta), letter(tb), dim(c.rows()), dim(c.cols()), dim(k), alpha, a.data(),
                                          dim(a.stride()), b.data(), dim(b.stride()), beta, c.data(), dim(c.stride()));
  NIBBLE_REQUIRE(status == dnnl_success, NumericalError, "gemm: oneDNN failed with status {} on ({}, {}) x ({}, {})",
                 static_cast<int>(status), a.rows(), a.cols(), b.rows(), b.cols());
}

template <class T>
void check_shapes(Transpose ta, Transpose tb, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c) {
  const std::size_t m = ta == Transpose::kYes ? a.cols() : a.rows();
  const std::size_t k = ta == Transpose::kYes ? a.rows() : a.cols();
  const std::size_t k2 = tb == Transpose::kYes ? b.cols() : b.rows();
  const std::size_t n = tb == Transpose::kYes ? b.rows() : b.cols();
  NIBBLE_REQUIRE(m == c.rows() && n == c.cols() && k == k2, InvalidArgument,
                 "gemm: op(A) ({}, {}) times op(B) ({}, {}) does not give C ({}, {})", m, k, k2, n, c.rows(), c.cols());
}

// Tiles of C, in rows and columns: large enough for the library's packing to pay, small enough to share out. Packing
// costs half as much with the larger ones, which are for products that make enough of them for any number of threads.
constexpr std::size_t kTileSide = 256, kLargeTileSide = 512, kEnoughLargeTiles = 64;

#if DNNL_VERSION_MAJOR >= 3
constexpr dnnl_cpu_isa_t kNoLimit = dnnl_cpu_isa_default;
#else
constexpr dnnl_cpu_isa_t kNoLimit = dnnl_cpu_isa_all;
#endif

dnnl_cpu_isa_t library_limit(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return dnnl_cpu_isa_avx2;
    case Isa::kAvx2Vnni:
      return dnnl_cpu_isa_avx2_vnni;
    case Isa::kAvx512:
      return dnnl_cpu_isa_avx512_core;
    case Isa::kAvx512Vnni:
    case Isa::kAvx512Vbmi:
      return has_avx512_bf16() ? dnnl_cpu_isa_avx512_core_bf16 : dnnl_cpu_isa_avx512_core_vnni;
    case Isa::kScalar:  // run Eigen instead
    case Isa::kNeon:
    case Isa::kNeonDotprod:
    case Isa::kNeonI8mm:
    case Isa::kAmx:
      break;
  }
  return kNoLimit;
}

}  // namespace

void prepare_gemm_library() {
  static std::once_flag limit_once;
  std::call_once(limit_once, [] { dnnl_set_max_cpu_isa(library_limit(active_isa())); });
  thread_local const bool single_threaded = [] {
    omp_set_num_threads(1);
    give_handlers_a_stack();
    return true;
  }();
  static_cast<void>(single_threaded);
}

template <class T>
void gemm(Transpose ta, Transpose tb, T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta, MatrixView<T> c) {
  check_shapes<T>(ta, tb, a, b, c);
  if (c.empty()) return;
  check_memory<const T>(a);
  check_memory<const T>(b);
  check_memory<T>(c);
  if constexpr (std::is_same_v<T, float>) {
    const bool no_terms = (ta == Transpose::kYes ? a.rows() : a.cols()) == 0;
    if (!runs_eigen() && !no_terms) return library_gemm(ta, tb, alpha, a, b, beta, c);
  }
  eigen_gemm<T>(ta, tb, alpha, a, b, beta, c);
}

template <class T>
void parallel_gemm(Transpose ta, Transpose tb, T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta,
                   MatrixView<T> c) {
  check_shapes<T>(ta, tb, a, b, c);
  const bool large = divide_up(c.rows(), kLargeTileSide) * divide_up(c.cols(), kLargeTileSide) >= kEnoughLargeTiles;
  const std::size_t size = large ? kLargeTileSide : kTileSide;
  const std::size_t row_tiles = divide_up(c.rows(), size), col_tiles = divide_up(c.cols(), size);
  parallel_for(row_tiles * col_tiles, [&](std::size_t tile) {
    const std::size_t r = tile / col_tiles * size, n = tile % col_tiles * size;
    const std::size_t rows = std::min(size, c.rows() - r), cols = std::min(size, c.cols() - n);
    const auto a_part = ta == Transpose::kYes ? a.cols_slice(r, rows) : a.rows_slice(r, rows);
    const auto b_part = tb == Transpose::kYes ? b.rows_slice(n, cols) : b.cols_slice(n, cols);
    gemm<T>(ta, tb, alpha, a_part, b_part, beta, c.block(r, n, rows, cols));
  });
}

#define NIBBLE_INSTANTIATE(T)                                                                                 \
  template void gemm<T>(Transpose, Transpose, T, MatrixView<const T>, MatrixView<const T>, T, MatrixView<T>); \
  template void parallel_gemm<T>(Transpose, Transpose, T, MatrixView<const T>, MatrixView<const T>, T, MatrixView<T>);
NIBBLE_INSTANTIATE(float)
NIBBLE_INSTANTIATE(double)
NIBBLE_INSTANTIATE(std::complex<double>)
#undef NIBBLE_INSTANTIATE

std::string gemm_identity() {
  if (runs_eigen()) return fmt::format("{} {}", eigen_version(), isa_name(active_isa()));
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{} {}", version->major, version->minor, version->patch, isa_name(active_isa()));
}

}  // namespace nibble
