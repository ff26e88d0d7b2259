// How fast packed weights are read: y = W x of one token on the layer shapes of Llama-3.2-1B, in each compute mode.
// Prints bytes of packed weights per second beside a plain streaming read in the same run. Codes come from memory, not
// from caches: the operators of a shape take turns over at least 600 MB. Arguments: threads (0: all), repeats, the
// beginning of a format's name (all that begin so), and `cached`, which measures one small operator over and over
// instead: what the kernels can do where memory does not hold them up.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "eval/speed/machine.h"
#include "quant/kernels/linear/packed_linear.h"
#include "quant/kernels/packing/packed_weight.h"
#include "tests/bench/measure.h"
#include "tests/quant/kernels/example_tensors.h"

namespace {

using namespace nibble;
using quant::Coding;
using quant::Compute;

constexpr std::size_t kTraffic = 600u << 20, kCachedRows = 256, kCachedCols = 2048;

struct Case {
  const char* name;
  std::optional<test::TensorWish> wish;  ///< none: float16
};

struct Operators {
  std::vector<std::unique_ptr<LinearOp<float>>> ops;
  double bytes = 0.0;  ///< of one
};

class HalfSource final : public WeightSource {
 public:
  HalfSource(std::size_t rows, std::size_t cols) : cols_(cols), bits_(rows * cols, f32_to_f16(0.25f)) {}
  std::size_t rows() const override { return bits_.size() / cols_; }
  std::size_t cols() const override { return cols_; }
  PlainFloats plain_floats() const override { return {bits_.data(), DType::kF16}; }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    std::fill_n(destination, (end - begin) * cols_, 0.25f);
  }

 private:
  std::size_t cols_;
  std::vector<std::uint16_t> bits_;
};

Operators make_operators(const Case& test_case, std::size_t rows, std::size_t cols, Compute compute, bool cached) {
  Operators made;
  Random random(1);
  std::optional<quant::QuantizedTensor> tensor;
  if (test_case.wish) {
    test::TensorWish wish = *test_case.wish;
    wish.spec.rows = rows;
    wish.spec.cols = cols;
    tensor = test::random_tensor(wish, random);
    made.bytes = static_cast<double>(quant::pack_weight(*tensor).bytes());
  } else {
    made.bytes = 2.0 * static_cast<double>(rows * cols);
  }
  const auto count = cached ? 1 : static_cast<std::size_t>(static_cast<double>(kTraffic) / made.bytes) + 1;
  for (std::size_t i = 0; i < count; ++i)
    made.ops.push_back(tensor ? quant::make_packed_linear(*tensor, {}, compute)
                              : quant::make_float_linear(std::make_shared<HalfSource>(rows, cols), {}, compute));
  return made;
}

void run(const Case& test_case, std::size_t rows, std::size_t cols, Compute compute, std::size_t repeats, bool cached,
         double bandwidth) {
  const Operators made = make_operators(test_case, rows, cols, compute, cached);
  const std::size_t rounds = cached ? 1000 : 1;
  Random random(2);
  Matrix<float> x(1, cols), y(1, rows);
  for (float& value : x.values()) value = static_cast<float>(random.normal());
  const auto timing = bench::measure(repeats, [&] {
    for (std::size_t round = 0; round < rounds; ++round)
      for (const auto& op : made.ops) op->forward(x, y);
  });
  const auto count = static_cast<double>(made.ops.size() * rounds);
  const auto rate = [&](double seconds) { return made.bytes * count / seconds; };
  const double median = rate(timing.median_seconds);
  fmt::print("{:18} {:>6} x {:<5} {:24} {:8.1f} {:6.1f} {:6.1f} to {:<6.1f} {:6.1f} %\n", test_case.name, rows, cols,
             made.ops.front()->kernel_name(), timing.median_seconds / count * 1e6, median / 1e9,
             rate(timing.max_seconds) / 1e9, rate(timing.min_seconds) / 1e9, 100 * median / bandwidth);
}

test::TensorWish wish(Coding coding, unsigned bits, std::size_t group, bool row_scale = false) {
  return {{coding, 0, 0, bits, group, 1}, row_scale};
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 0);
  const std::size_t repeats = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 5;
  const double bandwidth = eval::measure_read_bandwidth(eval::bandwidth_working_set(), repeats);
  fmt::print("{} threads, {}, streaming read {:.1f} GB/s\n", thread_count(), isa_name(active_isa()), bandwidth / 1e9);
  fmt::print("{:18} {:>6}   {:<5} {:24} {:>8} {:>6} {:>16} {:>7}\n", "format", "rows", "cols", "kernel", "us", "GB/s",
             "min to max", "share");
  const Case cases[] = {{"int4-block 32", wish(Coding::kBlocks, 4, 32)},
                        {"palette 4 channel", wish(Coding::kPalette, 4, 1)},
                        {"palette 4 tensor", wish(Coding::kPalette, 4, 0, true)},
                        {"float16", std::nullopt}};
  const std::string_view formats = argc > 3 ? argv[3] : "";
  const bool cached = argc > 4 && std::string_view(argv[4]) == "cached";
  std::vector<std::pair<std::size_t, std::size_t>> shapes{{512, 2048}, {2048, 2048}, {8192, 2048}, {2048, 8192}};
  if (cached) shapes = {{kCachedRows, kCachedCols}};
  for (const Case& test_case : cases) {
    if (!std::string_view(test_case.name).starts_with(formats)) continue;
    for (const Compute compute : {Compute::kInt8, Compute::kExact})
      for (const auto& [rows, cols] : shapes)
        if (test_case.wish || compute == Compute::kExact)
          run(test_case, rows, cols, compute, repeats, cached, bandwidth);
  }
  return 0;
}
