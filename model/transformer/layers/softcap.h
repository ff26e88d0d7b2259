#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "model/transformer/row_ops.h"

namespace nibble::model {

/// tanh u of a row of n ≤ kSoftcapPiece floats, given e = exp(2 u): 1 - 2 / (1 + e), and below 0.4, where that loses
/// digits, the Taylor polynomial up to u¹³ (its next term is 4e-9 of u there). Within 8 ulp.
inline float tanh_from_exp(float u, float e) {
  const float square = u * u;
  float p = 0.0035921281f;
  p = p * square - 0.0088632355f;
  p = p * square + 0.0218694892f;
  p = p * square - 0.0539682540f;
  p = p * square + 0.1333333333f;
  p = p * square - 0.3333333333f;
  const float small = u + u * square * p;
  const float large = 1.0f - 2.0f / (1.0f + e);
  return square < 0.16f ? small : large;
}

inline constexpr std::size_t kSoftcapPiece = 256;

/// x = cap · tanh(x / cap) over a row of n values, on the calling thread. Float: within 10 ulp.
template <class T>
void softcap_row(T* x, std::size_t n, double cap) {
  const auto limit = static_cast<RealOf<T>>(cap), inverse = static_cast<RealOf<T>>(1.0 / cap);
  if constexpr (std::is_same_v<T, float>) {
    std::array<float, kSoftcapPiece> e;
    for (std::size_t begin = 0; begin < n; begin += kSoftcapPiece) {
      const std::size_t count = std::min(kSoftcapPiece, n - begin);
      float* piece = x + begin;
      for (std::size_t i = 0; i < count; ++i) e[i] = 2.0f * inverse * piece[i];
      exp_row<float>(e.data(), e.data(), count, 0.0f);
      for (std::size_t i = 0; i < count; ++i) piece[i] = limit * tanh_from_exp(piece[i] * inverse, e[i]);
    }
  } else {
    for (std::size_t i = 0; i < n; ++i) x[i] = limit * std::tanh(x[i] * inverse);
  }
}

/// slope = d y / d x = 1 - (y / cap)², given y as softcap_row() left it.
template <class T>
void softcap_slope_row(const T* y, T* slope, std::size_t n, double cap) {
  const auto inverse = static_cast<RealOf<T>>(1.0 / cap);
  for (std::size_t i = 0; i < n; ++i) {
    const T part = y[i] * inverse;
    slope[i] = RealOf<T>(1) - part * part;
  }
}

}  // namespace nibble::model
