#pragma once

#include "quant/kernels/simd/int8_vector_avx2.h"
#include "quant/kernels/simd/plain_block_product.h"

// The vector type of int8_matvec_simd.h and int8_matmul_simd.h in AVX2, FMA, F16C and AVX-VNNI. Only *_avx2_vnni.cc
// include this.
namespace nibble::quant {
namespace {

struct Int8VectorVnni2x256 : Int8Lanes2x256 {
  static constexpr int kTilePanels = 1, kTileTokens = 6;  // 12 sums, 2 weights, 1 input of 16 registers

  static __m256i dot_of_bytes(__m256i sum, __m256i w, __m256i x) {
#ifdef __AVXVNNI__
    return _mm256_dpbusd_avx_epi32(sum, w, x);
#else  // the same, encoded for AVX-512: processors without AVX-VNNI can try the rest of it
    return _mm256_dpbusd_epi32(sum, w, x);
#endif
  }

  struct AnyBytes {
    static constexpr int kLess = 0;
    static Sums dot(Sums sums, Bytes w, Inputs x) {
      return {dot_of_bytes(sums.low, w.low, x.low), dot_of_bytes(sums.high, w.high, x.high)};
    }
  };
  using SmallBytes = AnyBytes;

  template <class Product, bool>
  using BlockProduct = PlainBlockProduct<Int8Lanes2x256, Product>;

  template <int kBits>
  struct Entries : ShuffledEntries<kBits> {
    using Product = AnyBytes;
    explicit Entries(const std::uint8_t* entries) : ShuffledEntries<kBits>(entries, false) {}
  };

  template <int kBits>
  struct Codes {
    using Product = SmallBytes;
    Bytes bytes(Bytes field) const {
      if constexpr (kBits == 8)
        return field;
      else
        return low_bits<kBits>(field);
    }
  };
};

}  // namespace
}  // namespace nibble::quant
