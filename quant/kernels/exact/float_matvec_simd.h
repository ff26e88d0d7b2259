#pragma once

#include "quant/kernels/exact/float_matvec.h"
#include "quant/kernels/simd/ahead.h"
#include "quant/kernels/simd/code_vectors.h"

// The kernels of float_matvec.h over a vector type V (see exact_matvec_simd.h), which also offers load_bfloat(p).
namespace nibble::quant::float_matvec {

constexpr std::size_t kWidth = 16;

template <FloatType kType>
constexpr std::size_t kBytes = kType == FloatType::kF32 ? 4 : 2;

template <class V, FloatType kType>
[[gnu::always_inline]] inline typename V::F load(const unsigned char* p) {
  if constexpr (kType == FloatType::kF16) return V::load_half(p);
  if constexpr (kType == FloatType::kBF16) return V::load_bfloat(p);
  if constexpr (kType == FloatType::kF32) return V::load(p);
}

template <class V, FloatType kType, std::size_t kTokens>
void rows(const FloatMatvecArgs& args) {
  constexpr std::size_t kChains = code_vectors::chains<V>(), kStep = kWidth * kBytes<kType>;
  const std::size_t whole = args.cols / kWidth, rest = args.cols % kWidth;
  const auto* row = static_cast<const unsigned char*>(args.weight);
  const Ahead<V> ahead(row, args.rows * args.cols * kBytes<kType>);
  for (std::size_t r = 0; r < args.rows; ++r, row += args.cols * kBytes<kType>) {
    typename V::F sums[kTokens][kChains];
    for (auto& token : sums)
      for (auto& sum : token) sum = V::zero();
    const auto add = [&](typename V::F w, std::size_t vector, std::size_t chain) {
      for (std::size_t t = 0; t < kTokens; ++t)
        sums[t][chain] = V::fma(w, V::load(args.x + t * args.x_stride + vector * kWidth), sums[t][chain]);
    };
    std::size_t i = 0;
    for (; i + kChains <= whole; i += kChains)
      for (std::size_t chain = 0; chain < kChains; ++chain) {
        if (kStep == 64 || chain % 2 == 0) ahead(row + (i + chain) * kStep);  // once a line
        add(load<V, kType>(row + (i + chain) * kStep), i + chain, chain);
      }
    for (; i < whole; ++i) add(load<V, kType>(row + i * kStep), i, 0);
    if (rest > 0) {  // never read past the row: it may end a page
      unsigned char last[kStep] = {};
      __builtin_memcpy(last, row + whole * kStep, rest * kBytes<kType>);
      add(load<V, kType>(last), whole, kChains > 1 ? 1 : 0);
    }
    for (std::size_t t = 0; t < kTokens; ++t) args.y[t * args.y_stride + r] = V::sum(code_vectors::total<V>(sums[t]));
  }
}

#define NIBBLE_TYPE(type) \
  { rows<V, type, 1>, rows<V, type, 4> }
template <class V>
constexpr FloatMatvecTable table() {
  return {{NIBBLE_TYPE(FloatType::kF16), NIBBLE_TYPE(FloatType::kBF16), NIBBLE_TYPE(FloatType::kF32)}};
}
#undef NIBBLE_TYPE

}  // namespace nibble::quant::float_matvec
