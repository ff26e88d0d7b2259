#pragma once

#include <cstddef>

namespace nibble::bench {

/// C (m, n) = A (m, k) B (n, k)ᵀ with Eigen compiled for AVX-512, in a file of its own (see cmake/isa.cmake on why).
void eigen_avx512_sgemm(std::size_t m, std::size_t n, std::size_t k, const float* a, const float* b, float* c);

}  // namespace nibble::bench
