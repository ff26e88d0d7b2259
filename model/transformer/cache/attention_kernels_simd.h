#pragma once

#include <cstddef>
#include <cstdint>

#include "model/transformer/cache/attention_kernels.h"

// The kernels of attention_kernels.h over a vector type V of one instruction set. V lives in an anonymous namespace of
// the file that includes this, so every function below has internal linkage and cannot leak into code for other
// processors.
//
// V offers   F                        a vector of kWidth floats
//            kRows                    rows of queries that share one load of a key or value; 4 kRows sums fit in
//            registers load(p), load(p, count)  kWidth values of any stored type as floats, or the first count <
//            kWidth, then zeros store(p, x), store(p, count, x), zero(), set(x), add(a, b), fma(a, b, c) = a b + c
//            store_sums(a, b, c, d, factors, p)   p[0…3] = the sums of the four vectors, times factors[0…3]
//            sum(x)                   of one vector
namespace nibble::model::attention_kernels {

template <class V, class Stored>
struct SimdKernels {
  using F = typename V::F;
  static constexpr std::size_t kWidth = V::kWidth, kKeys = 4;

  // kKeys keys from `key` on against kCount queries.
  template <std::size_t kCount>
  static void four_keys(const float* q, std::size_t q_stride, const Rows<Stored>& keys, std::size_t key, float scale,
                        float* scores, std::size_t stride) {
    const Stored* k = keys.values + key * keys.dim;
    F sums[kCount][kKeys];
    for (std::size_t r = 0; r < kCount; ++r)
      for (std::size_t i = 0; i < kKeys; ++i) sums[r][i] = V::zero();
    std::size_t j = 0;
    for (; j + kWidth <= keys.dim; j += kWidth) {
      const F k0 = V::load(k + j), k1 = V::load(k + keys.dim + j), k2 = V::load(k + 2 * keys.dim + j),
              k3 = V::load(k + 3 * keys.dim + j);
      for (std::size_t r = 0; r < kCount; ++r) {
        const F x = V::load(q + r * q_stride + j);
        sums[r][0] = V::fma(x, k0, sums[r][0]);
        sums[r][1] = V::fma(x, k1, sums[r][1]);
        sums[r][2] = V::fma(x, k2, sums[r][2]);
        sums[r][3] = V::fma(x, k3, sums[r][3]);
      }
    }
    if (j < keys.dim) {
      const std::size_t rest = keys.dim - j;
      for (std::size_t i = 0; i < kKeys; ++i) {
        const F part = V::load(k + i * keys.dim + j, rest);
        for (std::size_t r = 0; r < kCount; ++r)
          sums[r][i] = V::fma(V::load(q + r * q_stride + j, rest), part, sums[r][i]);
      }
    }
    float factors[kKeys];
    for (std::size_t i = 0; i < kKeys; ++i) factors[i] = keys.scales != nullptr ? scale * keys.scales[key + i] : scale;
    for (std::size_t r = 0; r < kCount; ++r)
      V::store_sums(sums[r][0], sums[r][1], sums[r][2], sums[r][3], factors, scores + r * stride + key);
  }

  static void one_key(const float* q, const Rows<Stored>& keys, std::size_t key, float scale, float* score) {
    const Stored* k = keys.values + key * keys.dim;
    F sum = V::zero();
    std::size_t j = 0;
    for (; j + kWidth <= keys.dim; j += kWidth) sum = V::fma(V::load(q + j), V::load(k + j), sum);
    if (j < keys.dim) sum = V::fma(V::load(q + j, keys.dim - j), V::load(k + j, keys.dim - j), sum);
    *score = V::sum(sum) * (keys.scales != nullptr ? scale * keys.scales[key] : scale);
  }

  template <std::size_t kCount>
  static void scores_of(const float* q, std::size_t q_stride, const Rows<Stored>& keys, float scale, float* scores,
                        std::size_t stride) {
    std::size_t key = 0;
    for (; key + kKeys <= keys.n; key += kKeys) four_keys<kCount>(q, q_stride, keys, key, scale, scores, stride);
    for (; key < keys.n; ++key)
      for (std::size_t r = 0; r < kCount; ++r) one_key(q + r * q_stride, keys, key, scale, scores + r * stride + key);
  }

  static void scores(ConstFloatRows q, const Rows<Stored>& keys, float scale, FloatRows out) {
    std::size_t r = 0;
    for (; r + V::kRows <= q.rows; r += V::kRows)
      scores_of<V::kRows>(q.values + r * q.stride, q.stride, keys, scale, out.values + r * out.stride, out.stride);
    for (; r < q.rows; ++r)
      scores_of<1>(q.values + r * q.stride, q.stride, keys, scale, out.values + r * out.stride, out.stride);
  }

  // Columns [j, j + kVectors * kWidth) of kCount rows of the output; the last vector holds `last` columns.
  template <std::size_t kCount, std::size_t kVectors>
  static void add_columns(ConstFloatRows weights, const Rows<Stored>& values, float* out, std::size_t stride,
                          std::size_t j, std::size_t last) {
    const bool whole = last == kWidth;
    F sums[kCount][kVectors];
    for (std::size_t r = 0; r < kCount; ++r)
      for (std::size_t c = 0; c < kVectors; ++c) sums[r][c] = V::zero();
    for (std::size_t i = 0; i < values.n; ++i) {
      const Stored* value = values.values + i * values.dim + j;
      F loaded[kVectors];
      for (std::size_t c = 0; c < kVectors; ++c)
        loaded[c] = c + 1 < kVectors || whole ? V::load(value + c * kWidth) : V::load(value + c * kWidth, last);
      const float scale = values.scales != nullptr ? values.scales[i] : 1.0f;
      for (std::size_t r = 0; r < kCount; ++r) {
        const float weight = weights.values[r * weights.stride + i];
        const F x = V::set(values.scales != nullptr ? weight * scale : weight);
        for (std::size_t c = 0; c < kVectors; ++c) sums[r][c] = V::fma(x, loaded[c], sums[r][c]);
      }
    }
    for (std::size_t r = 0; r < kCount; ++r) {
      for (std::size_t c = 0; c < kVectors; ++c) {
        float* y = out + r * stride + j + c * kWidth;
        if (c + 1 < kVectors || whole) {
          V::store(y, V::add(V::load(y), sums[r][c]));
        } else {
          V::store(y, last, V::add(V::load(y, last), sums[r][c]));
        }
      }
    }
  }

  template <std::size_t kCount>
  static void add_rows(ConstFloatRows weights, const Rows<Stored>& values, float* out, std::size_t stride) {
    std::size_t j = 0;
    for (; j + 4 * kWidth <= values.dim; j += 4 * kWidth)
      add_columns<kCount, 4>(weights, values, out, stride, j, kWidth);
    for (; j < values.dim; j += kWidth)
      add_columns<kCount, 1>(weights, values, out, stride, j, values.dim - j < kWidth ? values.dim - j : kWidth);
  }

  static void add_weighted(ConstFloatRows weights, const Rows<Stored>& values, FloatRows out) {
    std::size_t r = 0;
    for (; r + V::kRows <= weights.rows; r += V::kRows)
      add_rows<V::kRows>({weights.values + r * weights.stride, V::kRows, weights.stride}, values,
                         out.values + r * out.stride, out.stride);
    for (; r < weights.rows; ++r)
      add_rows<1>({weights.values + r * weights.stride, 1, weights.stride}, values, out.values + r * out.stride,
                  out.stride);
  }

  static constexpr Kernels<Stored> kKernels{scores, add_weighted};
};

template <class V>
constexpr Table kTable{SimdKernels<V, float>::kKernels, SimdKernels<V, std::uint16_t>::kKernels,
                       SimdKernels<V, std::int8_t>::kKernels};

}  // namespace nibble::model::attention_kernels
