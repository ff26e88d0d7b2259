#pragma once

#include <cstddef>
#include <vector>

#include "model/architecture/architecture.h"

namespace nibble::eval {

/// What this machine can do at best with the threads in use: what speeds are shares of.
struct MachineLimits {
  double read_bytes_per_second = 0.0;       ///< all threads reading memory front to back, far more than fits in caches
  double gemm_flops_per_second = 0.0;       ///< float32 products of the matrix library on the model's own shapes
  double bf16_gemm_flops_per_second = 0.0;  ///< its bfloat16 products on them; 0: not asked for, or it has none
  double peak_flops_per_second = 0.0;  ///< float32 multiply-adds on registers alone: the theoretical peak, measured
};

/// The best of `repeat` passes over `bytes` (rounded up to MiB) on huge pages where the system has
/// them. Cost: `bytes` of memory while it runs, repeat + 1 passes.
double measure_read_bandwidth(std::size_t bytes, std::size_t repeat);

/// Far more than fits in caches: four times the last-level cache, at least 1 GiB.
std::size_t bandwidth_working_set();

/// The rate over all products X Wᵀ of one block with `tokens` rows, by whichever is faster of parallel_gemm() and one
/// library call per thread and layer: the best of `repeat` rounds. Cost: activations and weights of one block as float.
double measure_gemm_rate(const model::Architecture& architecture, std::size_t tokens, std::size_t repeat);

/// The same of bfloat16 products, by whichever is faster of one library call per 256 rows and per thread; 0 where the
/// library has no instructions for them.
double measure_bf16_gemm_rate(const model::Architecture& architecture, std::size_t tokens, std::size_t repeat);

/// Multiply-adds that never touch memory, on all threads.
double measure_peak_flops();

}  // namespace nibble::eval
