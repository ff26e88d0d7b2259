// How fast windowed palettes are read: y = W x of one token on the layer shapes of Llama-3.2-1B, in each compute mode,
// beside scalar palettes of the same bits. Prints bytes of packed weights per second beside a plain streaming read.
// Operators take turns over at least 256 MB, so that codes come from memory; every pass of a case is preceded by a pass
// over plain memory, so that both see the same machine. One thread is timed by the processor's time that it gets, which
// other programs leave alone but for the memory they share. Arguments: threads (0: all), repeats, mode (exact or int8),
// only these bits, only these bits of a window.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "quant/kernels/linear/packed_linear.h"
#include "quant/kernels/linear/window_products.h"
#include "quant/kernels/packing/huge_buffer.h"
#include "tests/bench/measure.h"
#include "tests/quant/kernels/example_tensors.h"

namespace {

using namespace nibble;
using quant::Compute;

constexpr std::size_t kTraffic = 256u << 20;

struct Shape {
  std::size_t rows, cols;
};

struct Operators {
  std::vector<std::unique_ptr<LinearOp<float>>> ops;
  double bytes = 0.0;  ///< of one
};

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

/// window_bits 0: a scalar palette.
Operators make_operators(const Shape& shape, unsigned bits, unsigned window_bits, Compute compute) {
  Operators made;
  Random random(1);
  const quant::WindowedLayout layout{shape.rows, shape.cols, bits, window_bits};
  std::vector<std::byte> streams(window_bits > 0 ? layout.bytes() : 0);
  for (auto& byte : streams) byte = static_cast<std::byte>(random.below(256));
  std::vector<float> palette(layout.entries());
  for (float& entry : palette) entry = round_to_f16(static_cast<float>(random.normal()));
  const auto scalar = test::random_tensor({{quant::Coding::kPalette, shape.rows, shape.cols, bits, 0, 1}}, random);
  do {
    made.ops.push_back(window_bits > 0
                           ? quant::make_packed_linear(quant::pack_windows(layout, streams, palette, {}), {}, compute)
                           : quant::make_packed_linear(scalar, {}, compute));
    made.bytes = static_cast<double>(made.ops.back()->weight_bytes());
  } while (made.bytes * static_cast<double>(made.ops.size()) < static_cast<double>(kTraffic));
  return made;
}

// Of one thread, the time that it had a processor; of more, the time that passed.
double seconds_of(const std::function<void()>& work) {
  if (thread_count() > 1) return bench::seconds_of(work);
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

// Bytes per second of plain reading, a megabyte at a time on each thread: as long as a product.
double read_rate(const quant::HugeBuffer& memory) {
  constexpr std::size_t kPiece = 1u << 20;
  std::vector<std::uint64_t> found(memory.size() / kPiece);
  std::vector<double> seconds;
  const std::size_t together = kPiece * thread_count();
  for (std::size_t first = 0; first + together <= memory.size(); first += together)
    seconds.push_back(seconds_of([&] {
      parallel_for(thread_count(), [&](std::size_t t) {
        std::uint64_t sums[8] = {};
        const auto* values = reinterpret_cast<const std::uint64_t*>(memory.data() + first + t * kPiece);
        for (std::size_t i = 0; i < kPiece / 8; i += 8) {
          __builtin_prefetch(values + i + 512, 0, 2);  // at most 4 KB beyond the memory, and never touched
          for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += values[i + lane];
        }
        for (const std::uint64_t sum : sums) found[first / kPiece + t] += sum;
      });
    }));
  if (std::count(found.begin(), found.end(), 0) > 0) std::abort();  // keeps the compiler from leaving it out
  std::sort(seconds.begin(), seconds.end());
  return static_cast<double>(together) / seconds[seconds.size() / 10];
}

void run(const Shape& shape, unsigned bits, unsigned window_bits, Compute compute, std::size_t repeats) {
  const Operators made = make_operators(shape, bits, window_bits, compute);
  Random random(2);
  Matrix<float> x(1, shape.cols), y(1, shape.rows);
  for (float& value : x.values()) value = static_cast<float>(random.normal());
  // One product at a time: on a shared machine a long pass never runs alone.
  std::vector<double> seconds, shares;
  double best_bandwidth = 0.0;
  quant::HugeBuffer memory(kTraffic);
  std::fill_n(memory.data(), kTraffic, std::uint8_t{1});
  for (std::size_t i = 0; i < repeats; ++i) {
    const double bandwidth = read_rate(memory);
    best_bandwidth = std::max(best_bandwidth, bandwidth);
    for (const auto& op : made.ops) seconds.push_back(seconds_of([&] { op->forward(x, y); }));
  }
  const bench::Timing timing = bench::timing_of(seconds);
  const double best = made.bytes / timing.min_seconds, median = made.bytes / timing.median_seconds;
  std::sort(seconds.begin(), seconds.end());
  const double tenth = made.bytes / seconds[seconds.size() / 10];
  fmt::print("{} bits, windows of {:>2}  {:>5} x {:<5} {:24} {:8.1f} {:7.1f} {:7.1f} {:7.1f} {:8.1f} {:6.1f} %\n", bits,
             window_bits, shape.rows, shape.cols, made.ops.front()->kernel_name(), timing.median_seconds * 1e6,
             median / 1e9, tenth / 1e9, best / 1e9, best_bandwidth / 1e9, 100 * tenth / best_bandwidth);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 0);
  const std::size_t repeats = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 3;
  const std::string mode = argc > 3 ? argv[3] : "";
  const auto wanted = [&](int argument, unsigned value) {
    return argc <= argument || std::strtoul(argv[argument], nullptr, 10) == value;
  };
  fmt::print("{}, {} threads, {}\n", processor(), thread_count(), isa_name(active_isa()));
  fmt::print("{:22} {:>5}   {:<5} {:24} {:>8} {:>7} {:>7} {:>7} {:>8} {:>8}\n", "GB/s of weights", "rows", "cols",
             "kernel", "us", "median", "tenth", "best", "reading", "tenth's share");
  for (const Compute compute : {Compute::kInt8, Compute::kExact}) {
    if (!mode.empty() && mode != quant::compute_name(compute)) continue;
    for (const unsigned bits : {2u, 3u, 4u, 1u})
      for (const unsigned window_bits : {0u, 6u, 8u, 10u}) {
        if (!wanted(4, bits) || !wanted(5, window_bits)) continue;
        if (window_bits > 0 && !quant::WindowLayout::holds(bits, window_bits)) continue;
        for (const Shape& shape : {Shape{2048, 2048}, Shape{8192, 2048}, Shape{2048, 8192}})
          run(shape, bits, window_bits, compute, repeats);
      }
  }
  return 0;
}
