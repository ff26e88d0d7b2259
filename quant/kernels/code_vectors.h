#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/kernels/code_layout.h"

// Taking codes apart, over a vector type V of one instruction set. V lives in an anonymous namespace of the file that
// includes this, so every function here has internal linkage and cannot leak into code for other processors.
//
// V offers   Bytes                       64 bytes as 16 lanes of 32 bits
//            load_bytes(p)               any alignment
//            srl<n>(v), sll<n>(v)        shifts of the lanes
//            merge<mask>(a, b)           bits of `mask` (in every byte) from a, others from b
namespace nibble::quant::code_vectors {

template <int kValue>
struct Int {
  static constexpr int value = kValue;
  static constexpr std::size_t index = kValue;
};

/// action(Int<0>), action(Int<1>), … action(Int<kCount - 1>): shifts need constants.
template <int kCount, int kIndex = 0, class Action>
[[gnu::always_inline]] inline void unroll(const Action& action) {
  if constexpr (kIndex < kCount) {
    action(Int<kIndex>{});
    unroll<kCount, kIndex + 1>(action);
  }
}

template <class V, int kShift>
[[gnu::always_inline]] inline typename V::Bytes shifted_right(typename V::Bytes v) {
  if constexpr (kShift > 0) {
    return V::template srl<kShift>(v);
  } else if constexpr (kShift < 0) {
    return V::template sll<-kShift>(v);
  } else {
    return v;
  }
}

/// One unit of codes. field<f>() has a code in the low bits of every byte, with anything above it.
template <class V, int kBits>
struct Unit {
  static constexpr CodeLayout kLayout{kBits, kPanelRows};  // what is used of it does not depend on the rows
  static constexpr int kFields = static_cast<int>(kLayout.fields());
  static constexpr int kVectors = static_cast<int>(kLayout.unit_bytes() / kVectorBytes);
  static constexpr int kLow = static_cast<int>(kLayout.low_bits()), kHigh = static_cast<int>(kLayout.high_bits());

  typename V::Bytes vectors[static_cast<std::size_t>(kVectors)];

  [[gnu::always_inline]] explicit Unit(const std::uint8_t* p) {
    unroll<kVectors>([&](auto i) { vectors[i.value] = V::load_bytes(p + i.index * kVectorBytes); });
  }

  template <int kField>
  [[gnu::always_inline]] typename V::Bytes field() const {
    constexpr int kPerVector = 8 / kLow;
    const auto low = shifted_right<V, kField % kPerVector * kLow>(vectors[kField / kPerVector]);
    if constexpr (kHigh == 0) {
      return low;
    } else {  // the high plane is one vector
      return V::template merge<(1 << kLow) - 1>(low, shifted_right<V, kField * kHigh - kLow>(vectors[kVectors - 1]));
    }
  }
};

}  // namespace nibble::quant::code_vectors
