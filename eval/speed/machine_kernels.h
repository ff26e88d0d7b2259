#pragma once

#include <cstddef>
#include <cstdint>

namespace nibble::eval {

/// What one thread of this machine can do at best, in the instruction set in force (active_isa()).
struct MachineKernels {
  /// Reads every byte once; the result is a checksum, so that nothing is left out. `bytes` is a multiple of 256.
  std::uint64_t (*read)(const std::uint8_t* data, std::size_t bytes);
  /// `rounds` times flops_per_round float operations without touching memory; the result depends on all of them.
  float (*multiply_add)(std::size_t rounds);
  double flops_per_round;
};
const MachineKernels& machine_kernels();

namespace kernels {

std::uint64_t read_avx2(const std::uint8_t* data, std::size_t bytes);
std::uint64_t read_avx512(const std::uint8_t* data, std::size_t bytes);
std::uint64_t read_neon(const std::uint8_t* data, std::size_t bytes);
float multiply_add_avx2(std::size_t rounds);
float multiply_add_avx512(std::size_t rounds);
float multiply_add_neon(std::size_t rounds);

}  // namespace kernels
}  // namespace nibble::eval
