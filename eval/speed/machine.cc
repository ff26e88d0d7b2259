#include "eval/speed/machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <new>

#include "core/checked_math.h"
#include "core/gemm.h"
#include "core/matrix_view.h"
#include "core/random.h"
#include "core/thread_pool.h"
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

Matrix<float> random_matrix(std::size_t rows, std::size_t cols) {
  Matrix<float> matrix(rows, cols);
  Random random(rows + cols);
  for (float& value : matrix.values()) value = static_cast<float>(random.uniform() - 0.5);
  return matrix;
}

// One library call per thread: the columns of Y cut into as many parts.
void product_per_thread(MatrixView<const float> x, MatrixView<const float> w, MatrixView<float> y) {
  const std::size_t part = divide_up(w.rows(), thread_count());
  parallel_for_tiles(w.rows(), part, [&](std::size_t begin, std::size_t end) {
    gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, x, w.rows_slice(begin, end - begin), 0.0f,
                y.cols_slice(begin, end - begin));
  });
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

double measure_gemm_rate(const model::Config& config, std::size_t tokens, std::size_t repeat) {
  struct Product {
    Matrix<float> x, w, y;
  };
  std::vector<Product> products;
  double flops = 0.0;
  for (const model::LinearLayer& layer : model::linear_layers(config)) {
    if (layer.block > 0) break;
    products.push_back({random_matrix(tokens, layer.in), random_matrix(layer.out, layer.in), {tokens, layer.out}});
    flops += 2.0 * static_cast<double>(tokens) * static_cast<double>(layer.out) * static_cast<double>(layer.in);
  }
  const double tiled = shortest(repeat, [&] {
    for (Product& p : products)
      parallel_gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, p.x.view(), p.w.view(), 0.0f, p.y.view());
  });
  const double whole = shortest(repeat, [&] {
    for (Product& p : products) product_per_thread(p.x.view(), p.w.view(), p.y.view());
  });
  return flops / std::min(tiled, whole);
}

double measure_peak_flops() {
  constexpr std::size_t kRounds = 4'000'000;
  std::vector<float> results(thread_count());
  const double seconds = shortest(3, [&] {
    parallel_for(thread_count(),
                 [&](std::size_t thread) { results[thread] = machine_kernels().multiply_add(kRounds); });
  });
  return static_cast<double>(thread_count() * kRounds) * machine_kernels().flops_per_round / seconds;
}

}  // namespace nibble::eval
