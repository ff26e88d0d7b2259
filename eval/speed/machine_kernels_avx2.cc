#include <immintrin.h>

#include "eval/speed/machine_kernels.h"

namespace nibble::eval::kernels {

std::uint64_t read_avx2(const std::uint8_t* data, std::size_t bytes) {
  __m256i sums[8];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  for (std::size_t i = 0; i < bytes; i += 256)
#pragma GCC unroll 8
    for (std::size_t w = 0; w < 8; ++w)
      sums[w] = _mm256_add_epi64(sums[w], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + i + w * 32)));
  std::uint64_t total = 0;
  for (const __m256i& sum : sums) {
    std::uint64_t lanes[4];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), sum);
    total += lanes[0] + lanes[1] + lanes[2] + lanes[3];
  }
  return total;
}

float multiply_add_avx2(std::size_t rounds) {
  constexpr int kChains = 12;  // of 16 registers
  const __m256 factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.5f);
  __m256 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  for (std::size_t round = 0; round < rounds; ++round)
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm256_fmadd_ps(sums[i], factor, term);
  __m256 total = _mm256_setzero_ps();
  for (int i = 0; i < kChains; ++i) total = _mm256_add_ps(total, sums[i]);
  float lanes[8];
  _mm256_storeu_ps(lanes, total);
  float result = 0.0f;
  for (const float lane : lanes) result += lane;
  return result;
}

}  // namespace nibble::eval::kernels
