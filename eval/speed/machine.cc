#include "eval/speed/machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <new>
#include <type_traits>
#include <utility>

#include "core/checked_math.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/bf16_gemm.h"
#include "core/matrix/dtype.h"
#include "core/matrix/gemm.h"
#include "core/matrix/matrix_view.h"
#include "core/random.h"
#include "eval/speed/machine_kernels.h"

namespace nibble::eval {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;  // read by one thread at a time

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The shortest of `repeat` runs after one that warms up: a limit is what the machine can do, not what it mostly does.
double shortest(std::size_t repeat, const std::function<void()>& work) {
  work();
  double best = seconds_of(work);
  for (std::size_t i = 1; i < repeat; ++i) best = std::min(best, seconds_of(work));
  return best;
}

// Zeroed memory on huge pages, if the system has any to give.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    ::madvise(data_, bytes, MADV_HUGEPAGE);
  }
  ~Pages() { ::munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::uint8_t* data() const { return static_cast<std::uint8_t*>(data_); }

 private:
  void* data_;
  std::size_t bytes_;
};

template <class T>
Matrix<T> random_matrix(std::size_t rows, std::size_t cols) {
  Matrix<T> matrix(rows, cols);
  Random random(rows + cols);
  for (T& value : matrix.values()) {
    const auto number = static_cast<float>(random.uniform() - 0.5);
    if constexpr (std::is_same_v<T, float>)
      value = number;
    else
      value = f32_to_bf16(number);
  }
  return matrix;
}

// Y = X Wᵀ of one layer; T: float, or std::uint16_t for bfloat16.
template <class T>
struct Product {
  Matrix<T> x, w;
  Matrix<float> y;
};

// The library's product of all of X with some rows of W.
void multiply(MatrixView<const float> x, MatrixView<const float> w, MatrixView<float> y) {
  gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, x, w, 0.0f, y);
}
void multiply(MatrixView<const std::uint16_t> x, MatrixView<const std::uint16_t> w, MatrixView<float> y) {
  bf16_gemm(Transpose::kYes, x, w, y);
}

template <class T>
void product_in_parts(Product<T>& p, std::size_t rows_per_call) {
  parallel_for_tiles(p.w.rows(), rows_per_call, [&](std::size_t begin, std::size_t end) {
    multiply(p.x.view(), std::as_const(p.w).view().rows_slice(begin, end - begin),
             p.y.view().cols_slice(begin, end - begin));
  });
}

template <class T>
void product_per_thread(Product<T>& p) {
  product_in_parts(p, divide_up(p.w.rows(), thread_count()));
}

// Operations per second of the fastest of `ways` to do all products of one block.
template <class T>
double best_rate(const model::Architecture& architecture, std::size_t tokens, std::size_t repeat,
                 std::initializer_list<void (*)(Product<T>&)> ways) {
  std::vector<Product<T>> products;
  double flops = 0.0;
  for (const model::Parameter* layer : model::linear_layers(architecture)) {
    if (layer->block > 0) break;
    if (layer->expert.value_or(0) > 0) continue;  // alike
    products.push_back(
        {random_matrix<T>(tokens, layer->in), random_matrix<T>(layer->out, layer->in), {tokens, layer->out}});
    flops += 2.0 * static_cast<double>(tokens) * static_cast<double>(layer->weights());
  }
  double best = 0.0;
  for (const auto way : ways)
    best = std::max(best, flops / shortest(repeat, [&] { std::for_each(products.begin(), products.end(), way); }));
  return best;
}

}  // namespace

std::size_t bandwidth_working_set() {
  const long cache = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::max(std::size_t{1} << 30, 4 * static_cast<std::size_t>(std::max(cache, 0L)));
}

double measure_read_bandwidth(std::size_t bytes, std::size_t repeat) {
  const std::size_t pieces = divide_up(bytes, kPiece);
  const Pages pages(pieces * kPiece);
  parallel_for(pieces, [&](std::size_t piece) {  // every page written: untouched ones would all be the one zero page
    for (std::size_t at = 0; at < kPiece; at += 4096) pages.data()[piece * kPiece + at] = 1;
  });
  std::vector<std::uint64_t> sums(pieces);
  // As many pieces in a row per thread as there are: streams that the prefetcher can follow.
  const std::size_t share = divide_up(pieces, thread_count());
  const double seconds = shortest(repeat, [&] {
    parallel_for_tiles(pieces, share, [&](std::size_t begin, std::size_t end) {
      sums[begin] = machine_kernels().read(pages.data() + begin * kPiece, (end - begin) * kPiece);
    });
  });
  return static_cast<double>(pieces * kPiece) / seconds;
}

double measure_gemm_rate(const model::Architecture& architecture, std::size_t tokens, std::size_t repeat) {
  const auto tiled = [](Product<float>& p) {
    parallel_gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, p.x.view(), p.w.view(), 0.0f, p.y.view());
  };
  return best_rate<float>(architecture, tokens, repeat, {tiled, product_per_thread});
}

double measure_bf16_gemm_rate(const model::Architecture& architecture, std::size_t tokens, std::size_t repeat) {
  if (!has_bf16_gemm()) return 0.0;
  const auto in_parts = [](Product<std::uint16_t>& p) { product_in_parts(p, 256); };
  return best_rate<std::uint16_t>(architecture, tokens, repeat, {in_parts, product_per_thread});
}

double measure_peak_flops() {
  constexpr std::size_t kRounds = 500'000;  // a millisecond or two: of many, some are not interrupted
  std::vector<float> results(thread_count());
  const double seconds = shortest(24, [&] {
    parallel_for(thread_count(),
                 [&](std::size_t thread) { results[thread] = machine_kernels().multiply_add(kRounds); });
  });
  return static_cast<double>(thread_count() * kRounds) * machine_kernels().flops_per_round / seconds;
}

}  // namespace nibble::eval
