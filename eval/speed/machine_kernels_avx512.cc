#include <immintrin.h>

#include "eval/speed/machine_kernels.h"

namespace nibble::eval::kernels {

std::uint64_t read_avx512(const std::uint8_t* data, std::size_t bytes) {
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
  for (std::size_t i = 0; i < bytes; i += 256) {
    a = _mm512_add_epi64(a, _mm512_loadu_si512(data + i));
    b = _mm512_add_epi64(b, _mm512_loadu_si512(data + i + 64));
    c = _mm512_add_epi64(c, _mm512_loadu_si512(data + i + 128));
    d = _mm512_add_epi64(d, _mm512_loadu_si512(data + i + 192));
  }
  const __m512i sum = _mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d));
  return static_cast<std::uint64_t>(_mm512_reduce_add_epi64(sum));
}

float multiply_add_avx512(std::size_t rounds) {
  constexpr int kChains = 16;
  const __m512 factor = _mm512_set1_ps(0.999f), term = _mm512_set1_ps(0.5f);
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (std::size_t round = 0; round < rounds; ++round)
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_fmadd_ps(sums[i], factor, term);
  __m512 total = _mm512_setzero_ps();
  for (int i = 0; i < kChains; ++i) total = _mm512_add_ps(total, sums[i]);
  return _mm512_reduce_add_ps(total);
}

}  // namespace nibble::eval::kernels
