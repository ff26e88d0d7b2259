#pragma once

#include "quant/kernels/simd/int8_vector_avx512.h"
#include "quant/kernels/simd/plain_block_product.h"

// The vector type of int8_matvec_simd.h and int8_matmul_simd.h in AVX-512 F, BW, VL, DQ, VNNI. Only *_avx512_vnni.cc,
// *_avx512_vbmi.cc and *_amx.cc include this.
namespace nibble::quant {
namespace {

struct Int8VectorVnni512 : Int8Lanes512 {
  // vpdpwssd adds the products of the halves of lanes, and the upper half of an integer below 2^8 is 0.
  static Sums less_products(Sums sums, Sums integers, int factor) {
    return _mm512_dpwssd_epi32(sums, integers, _mm512_set1_epi32(-factor));
  }

  struct AnyBytes {
    static constexpr int kLess = 0;
    static Sums dot(Sums sums, Bytes w, Inputs x) { return _mm512_dpbusd_epi32(sums, w, x); }
  };
  using SmallBytes = AnyBytes;

  template <class Product, bool>
  using BlockProduct = PlainBlockProduct<Int8Lanes512, Product>;

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
