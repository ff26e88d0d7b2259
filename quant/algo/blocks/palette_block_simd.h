#pragma once

#include "quant/algo/blocks/palette_block_kernels.h"

// The kernels of palette_block_kernels.h in the compiler's own vectors, as wide as the registers of the instruction set
// that the file which includes this is compiled for. Every operation is rounded by itself, so all sets give the same
// bits. In an unnamed namespace, so that nothing of it leaks into code for other processors.
namespace nibble::quant::palette_block_kernels {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t kWidth = 16;
#elif defined(__AVX2__)
constexpr std::size_t kWidth = 8;
#else
constexpr std::size_t kWidth = 4;
#endif
typedef float Wide __attribute__((vector_size(kWidth * sizeof(float))));

[[gnu::always_inline]] inline Wide load_wide(const float* p) {
  Wide v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

[[gnu::always_inline]] inline Wide all_of(float value) { return Wide{} + value; }

/// Those of kWidth of the lanes.
struct WideSums {
  Wide ee{}, eq{}, qq{};
  [[gnu::always_inline]] void store(Sums& sums, std::size_t first) const {
    __builtin_memcpy(sums.ee + first, &ee, sizeof ee);
    __builtin_memcpy(sums.eq + first, &eq, sizeof eq);
    __builtin_memcpy(sums.qq + first, &qq, sizeof qq);
  }
};

/// The entries of values: one comparison and one choice for each bound.
template <std::size_t kCount>
struct Chooser {
  Wide scale, inverse;
  const Entries& entries;

  [[gnu::always_inline]] Chooser(const float* scales, const Entries& of) : scale(load_wide(scales)), entries(of) {
    const Wide divided = 1.0f / scale;
    inverse = divided - divided == 0.0f ? divided : Wide{};  // 0 where it is infinite
  }
  [[gnu::always_inline]] Wide operator()(Wide value) const {
    const Wide x = value * inverse;
    Wide q = all_of(entries.value[0]);
#pragma GCC unroll 16
    for (std::size_t c = 1; c < kCount; ++c) q = x > all_of(entries.bound[c - 1]) ? all_of(entries.value[c]) : q;
    return q;
  }
};

template <std::size_t kCount>
Sums weighted(const float* values, const float* weights, std::size_t count, const float* scales,
              const Entries& entries) {
  Sums result;
  for (std::size_t first = 0; first < kLanes; first += kWidth) {
    const Chooser<kCount> choose(scales + first, entries);
    WideSums sums;
    for (std::size_t j = 0; j < count; ++j) {
      const Wide value = load_wide(values + j * kLanes + first), weight = load_wide(weights + j * kLanes + first);
      const Wide q = choose(value), e = value - q * choose.scale, we = weight * e;
      sums.ee += we * e;
      sums.eq += we * q;
      sums.qq += weight * q * q;
    }
    sums.store(result, first);
  }
  return result;
}

template <std::size_t kCount>
Sums under_hessian(const float* values, const float* h, std::size_t stride, std::size_t count, const float* scales,
                   const Entries& entries) {
  Sums result;
  for (std::size_t first = 0; first < kLanes; first += kWidth) {
    const Chooser<kCount> choose(scales + first, entries);
    Wide e[kMostHessianInputs], q[kMostHessianInputs];
    for (std::size_t j = 0; j < count; ++j) {
      const Wide value = load_wide(values + j * kLanes + first);
      q[j] = choose(value);
      e[j] = value - q[j] * choose.scale;
    }
    WideSums sums;
    for (std::size_t i = 0; i < count; ++i) {
      Wide he{}, hq{};
      for (std::size_t j = 0; j < count; ++j) {
        he += h[i * stride + j] * e[j];
        hq += h[i * stride + j] * q[j];
      }
      sums.ee += e[i] * he;
      sums.eq += q[i] * he;
      sums.qq += q[i] * hq;
    }
    sums.store(result, first);
  }
  return result;
}

[[gnu::always_inline]] inline Sums weighted_of(const float* values, const float* weights, std::size_t count,
                                               const float* scales, const Entries& entries) {
  if (entries.count == 4) return weighted<4>(values, weights, count, scales, entries);
  if (entries.count == 8) return weighted<8>(values, weights, count, scales, entries);
  return weighted<16>(values, weights, count, scales, entries);
}

[[gnu::always_inline]] inline Sums under_hessian_of(const float* values, const float* h, std::size_t stride,
                                                    std::size_t count, const float* scales, const Entries& entries) {
  if (entries.count == 4) return under_hessian<4>(values, h, stride, count, scales, entries);
  if (entries.count == 8) return under_hessian<8>(values, h, stride, count, scales, entries);
  return under_hessian<16>(values, h, stride, count, scales, entries);
}

}  // namespace
}  // namespace nibble::quant::palette_block_kernels
