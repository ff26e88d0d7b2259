#include "eval/speed/machine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/matrix/bf16_gemm.h"
#include "eval/speed/machine_kernels.h"
#include "tests/model/transformer/toy_weights.h"
#include "tests/support/compare.h"

namespace nibble::eval {
namespace {

TEST(MachineKernels, ReadingTouchesEveryWordOnce) {
  for (const std::size_t words : {32u, 64u, 320u}) {
    std::vector<std::uint64_t> data(words);
    for (std::size_t i = 0; i < words; ++i) data[i] = i * i + 1;
    std::uint64_t expected = 0;
    for (const std::uint64_t word : data) expected += word;
    EXPECT_EQ(machine_kernels().read(reinterpret_cast<const std::uint8_t*>(data.data()), words * 8), expected);
  }
}

TEST(MachineKernels, MultiplyAddsConverge) {
  // x -> 0.999 x + 0.5 has the fixed point 500; every chain gets there, and the sum of n chains is 500 n.
  const float sum = machine_kernels().multiply_add(100'000);
  EXPECT_TRUE(test::near(std::fmod(static_cast<double>(sum) + 250.0, 500.0), 250.0, {.abs = 25.0}));
  EXPECT_GT(sum, 500.0f * 15.0f);
}

TEST(Machine, LimitsArePositiveAndOfThisWorld) {
  const double bandwidth = measure_read_bandwidth(8 << 20, 1);
  EXPECT_GT(bandwidth, 1e7);  // slower than any memory
  EXPECT_LT(bandwidth, 1e13);
  const double peak = measure_peak_flops();
  EXPECT_GT(peak, 1e6);
  EXPECT_LT(peak, 1e16);
  const model::Architecture architecture = test::toy_llama({.hidden = 32, .layers = 2, .intermediate = 48, .heads = 2});
  EXPECT_GT(measure_gemm_rate(architecture, 8, 1), 1e5);
  const double bf16 = measure_bf16_gemm_rate(architecture, 8, 1);
  EXPECT_TRUE(has_bf16_gemm() ? bf16 > 1e5 : bf16 == 0.0) << bf16;
  EXPECT_GE(bandwidth_working_set(), std::size_t{1} << 30);
}

}  // namespace
}  // namespace nibble::eval
