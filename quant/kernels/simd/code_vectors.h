#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/kernels/packing/code_layout.h"
#include "quant/kernels/simd/ahead.h"

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

/// How many sums of one output are kept beside each other: 4, to hide the latency of additions, or what V says, whose F
/// may be several registers.
template <class V>
constexpr std::size_t chains() {
  if constexpr (requires { V::kChains; }) {
    return V::kChains;
  } else {
    return 4;
  }
}

/// Those of one output, added up.
template <class V, std::size_t kChains>
[[gnu::always_inline]] inline typename V::F total(const typename V::F (&sums)[kChains]) {
  if constexpr (kChains == 1) return sums[0];
  if constexpr (kChains == 2) return V::add(sums[0], sums[1]);
  if constexpr (kChains == 4) return V::add(V::add(sums[0], sums[1]), V::add(sums[2], sums[3]));
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

  /// Of a stream that is read front to back.
  [[gnu::always_inline]] explicit Unit(const std::uint8_t* p, const Ahead<V>& ahead) : Unit(p) {
    unroll<kVectors>([&](auto i) { ahead(p + i.index * kVectorBytes); });
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

/// The scales and zero points that go with the codes of `blocks` blocks of 16 rows (R = 16), as far ahead as those.
template <class V, int kBits, std::size_t kBlock = kBlockInputs>
class BlockAhead {
 public:
  [[gnu::always_inline]] BlockAhead(const std::uint16_t* scales, const std::uint8_t* zeros, std::size_t blocks)
      : scales_(scales),
        zeros_(zeros),
        ahead_of_scales_(scales, blocks * kPanelRows * 2, kAheadBlocks * kPanelRows * 2),
        ahead_of_zeros_(zeros, zeros == nullptr ? 0 : blocks * kPanelRows, kAheadBlocks * kPanelRows) {}

  [[gnu::always_inline]] void operator()(std::size_t block) const {
    ahead_of_scales_(scales_ + block * kPanelRows);
    if (zeros_ != nullptr) ahead_of_zeros_(zeros_ + block * kPanelRows);
  }

 private:
  static constexpr std::size_t kAheadBlocks = kAheadBytes / (kPanelRows * kBlock * kBits / 8);
  const std::uint16_t* scales_;
  const std::uint8_t* zeros_;
  Ahead<V> ahead_of_scales_, ahead_of_zeros_;
};

}  // namespace nibble::quant::code_vectors
