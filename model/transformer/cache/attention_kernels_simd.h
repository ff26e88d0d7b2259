#pragma once

#include <cstddef>
#include <cstdint>

#include "model/transformer/cache/attention_kernels.h"

// The kernels of attention_kernels.h over a vector type V of one instruction set. V lives in an anonymous namespace of
// the file that includes this, so every function below has internal linkage and cannot leak into code for other
// processors.
//
// V offers   F                         a vector of kWidth floats
//            kRows                     rows of queries that share one load of a key or value: kRows * kKeyBlock sums,
//                                      and kRows * 4 vectors of them, fit in registers
//            load(p), load(p, count)   kWidth values of any stored type as floats; the first count < kWidth, then zeros
//            store(p, x), store(p, count, x), zero(), set(x), add(a, b), mul(a, b), fma(a, b, c) = a b + c
namespace nibble::model::attention_kernels {

template <class V, class Stored>
struct SimdKernels {
  using F = typename V::F;
  static constexpr std::size_t kWidth = V::kWidth;
  // What the processor's own prefetching leaves of the wait for memory goes when the lines are asked for this early.
  static constexpr std::size_t kAhead = 8192 / sizeof(Stored), kLine = 64 / sizeof(Stored);

  static void prefetch(const Stored* p, std::size_t count) {
    for (std::size_t i = 0; i < count; i += kLine) __builtin_prefetch(p + kAhead + i, 0, 2);
  }

  // One block of keys against kCount queries.
  template <std::size_t kCount>
  static void block_scores(ConstFloatRows q, const Stored* keys, const float* scales, std::size_t dim, float scale,
                           float* scores, std::size_t stride) {
    constexpr std::size_t kVectors = kKeyBlock / kWidth;
    F sums[kCount][kVectors];
    for (std::size_t r = 0; r < kCount; ++r)
      for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = V::zero();
    for (std::size_t j = 0; j < dim; ++j, keys += kKeyBlock) {
      F loaded[kVectors];
      for (std::size_t v = 0; v < kVectors; ++v) loaded[v] = V::load(keys + v * kWidth);
      prefetch(keys, kKeyBlock);
      for (std::size_t r = 0; r < kCount; ++r) {
        const F x = V::set(q.values[r * q.stride + j]);
        for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = V::fma(x, loaded[v], sums[r][v]);
      }
    }
    for (std::size_t v = 0; v < kVectors; ++v) {
      const F factor = scales != nullptr ? V::mul(V::set(scale), V::load(scales + v * kWidth)) : V::set(scale);
      for (std::size_t r = 0; r < kCount; ++r) V::store(scores + r * stride + v * kWidth, V::mul(sums[r][v], factor));
    }
  }

  static void scores(ConstFloatRows q, const KeyBlocks<Stored>& keys, float scale, FloatRows out) {
    for (std::size_t key = 0; key < keys.n; key += kKeyBlock) {
      const Stored* block = keys.values + key * keys.dim;
      const float* scales = keys.scales != nullptr ? keys.scales + key : nullptr;
      std::size_t r = 0;
      for (; r + V::kRows <= q.rows; r += V::kRows)
        block_scores<V::kRows>({q.values + r * q.stride, V::kRows, q.stride}, block, scales, keys.dim, scale,
                               out.values + r * out.stride + key, out.stride);
      for (; r < q.rows; ++r)
        block_scores<1>({q.values + r * q.stride, 1, q.stride}, block, scales, keys.dim, scale,
                        out.values + r * out.stride + key, out.stride);
    }
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
      prefetch(value, kVectors * kWidth);
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
