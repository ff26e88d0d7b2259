#include "eval/speed/machine_kernels.h"

#include <cstring>

#include "core/machine/isa.h"

namespace nibble::eval {
namespace {

constexpr std::size_t kChains = 16;  // independent sums: more than latency times throughput of a multiply-add

std::uint64_t read_scalar(const std::uint8_t* data, std::size_t bytes) {
  std::uint64_t sums[4] = {};
  for (std::size_t i = 0; i < bytes; i += sizeof sums) {
    std::uint64_t words[4];
    std::memcpy(words, data + i, sizeof words);
    for (std::size_t w = 0; w < 4; ++w) sums[w] += words[w];
  }
  return sums[0] + sums[1] + sums[2] + sums[3];
}

float multiply_add_scalar(std::size_t rounds) {
  float sums[kChains];
  for (std::size_t i = 0; i < kChains; ++i) sums[i] = static_cast<float>(i);
  for (std::size_t round = 0; round < rounds; ++round)
    for (float& sum : sums) sum = sum * 0.999f + 0.5f;
  float total = 0.0f;
  for (const float sum : sums) total += sum;
  return total;
}

constexpr MachineKernels kScalarMachine = {read_scalar, multiply_add_scalar, 2.0 * kChains};
#if NIBBLE_HAVE_X86_AVX2
constexpr MachineKernels kAvx2Machine = {kernels::read_avx2, kernels::multiply_add_avx2, 2.0 * 8 * 12};
#endif
#if NIBBLE_HAVE_X86_AVX512
constexpr MachineKernels kAvx512Machine = {kernels::read_avx512, kernels::multiply_add_avx512, 2.0 * 16 * kChains};
#endif
#if NIBBLE_HAVE_ARM_NEON
constexpr MachineKernels kNeonMachine = {kernels::read_neon, kernels::multiply_add_neon, 2.0 * 4 * 24};
#endif

}  // namespace

const MachineKernels& machine_kernels() {
  static const auto& kernels =
      *choose_variant(&kScalarMachine, NIBBLE_AVX2_VARIANT(&kAvx2Machine), NIBBLE_AVX512_VARIANT(&kAvx512Machine),
                      NIBBLE_NEON_VARIANT(&kNeonMachine));
  return kernels;
}

}  // namespace nibble::eval
