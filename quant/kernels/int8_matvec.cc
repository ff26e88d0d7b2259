#include "quant/kernels/int8_matvec.h"

#include <cmath>
#include <limits>

#include "core/isa.h"
#include "quant/kernels/int8_matmul_simd.h"
#include "quant/kernels/int8_matvec_simd.h"
#include "quant/kernels/vector_scalar.h"

namespace nibble::quant {
namespace {

struct Int8VectorScalar : VectorScalar {
  typedef std::int32_t Sums __attribute__((vector_size(64)));
  static constexpr int kTileTokens = 4;
  struct Inputs {
    const std::int8_t* first;
    std::size_t stride;  // from one lane's four to the next one's
  };

  static Sums set_sums(int value) { return Sums{} + value; }
  static Sums add_sums(Sums a, Sums b) { return a + b; }
  static F floats(Sums sums) { return __builtin_convertvector(sums, F); }
  static Sums less_scaled(Sums sums, const std::uint8_t* bytes, int middle, int factor) {
    for (std::size_t i = 0; i < kLanes; ++i) sums[i] -= (bytes[i] - middle) * factor;
    return sums;
  }
  static Inputs inputs(const std::int8_t* x) { return {x, 4}; }
  static Inputs four_inputs(const std::int8_t* x) { return {x, 0}; }

  template <int kBits>
  struct Entries {
    static constexpr int kLess = 0;
    static constexpr bool kSigned = false;
    const std::uint8_t* table;
    explicit Entries(const std::uint8_t* entries) : table(entries) {}
    Bytes bytes(Bytes field) const {
      Bytes made{};
      for (std::size_t i = 0; i < kLanes; ++i)
        for (std::size_t b = 0; b < 4; ++b)
          made[i] |= std::uint32_t{table[field[i] >> 8 * b & ((1u << kBits) - 1)]} << 8 * b;
      return made;
    }
    Sums dot(Sums sums, Bytes field, Inputs x) const { return dot_bytes<kSigned>(sums, bytes(field), x); }
  };

  template <int kBits>
  struct Codes {
    static constexpr int kLess = 0;
    static constexpr bool kSigned = false;
    Bytes bytes(Bytes field) const { return field & 0x01010101u * ((1u << kBits) - 1); }
    Sums dot(Sums sums, Bytes field, Inputs x) const { return dot_bytes<kSigned>(sums, bytes(field), x); }
  };

  static void store_bytes(std::uint8_t* p, Bytes v) {
    for (std::size_t i = 0; i < kLanes; ++i)
      for (std::size_t b = 0; b < 4; ++b) p[4 * i + b] = static_cast<std::uint8_t>(v[i] >> 8 * b);
  }
  template <bool kSigned>
  static Sums dot_bytes(Sums sums, Bytes w, Inputs x) {
    for (std::size_t i = 0; i < kLanes; ++i)
      for (std::size_t b = 0; b < 4; ++b) sums[i] += static_cast<int>(w[i] >> 8 * b & 255) * x.first[i * x.stride + b];
    return sums;
  }
  static Sums add_products(Sums sums, Bytes a, int n) {
    for (std::size_t i = 0; i < kLanes; ++i) sums[i] += static_cast<std::int16_t>(a[i]) * n;
    return sums;
  }

  static void quantize_block(const float* x, std::int8_t* x8, float& scale, std::int32_t& sum) {
    float largest = 0.0f;
    bool finite = true;
    for (std::size_t j = 0; j < kBlockInputs; ++j) {
      largest = std::max(largest, std::abs(x[j]));
      finite = finite && std::isfinite(x[j]);
    }
    const float inverse = finite && largest > 0.0f ? 127.0f / largest : 0.0f;
    sum = 0;
    for (std::size_t j = 0; j < kBlockInputs; ++j) {
      x8[j] = finite ? static_cast<std::int8_t>(std::lrint(x[j] * inverse)) : std::int8_t{0};
      sum += x8[j];
    }
    scale = finite ? largest / 127.0f : std::numeric_limits<float>::quiet_NaN();
  }
};

}  // namespace

const Int8MatvecTable kInt8MatvecScalar = int8_matvec::table<Int8VectorScalar>("scalar");
const Int8MatmulTable kInt8MatmulScalar = int8_matmul::table<Int8VectorScalar>();

const Int8MatvecTable& active_int8_matvec() {
  const Isa isa = active_isa();
#if NIBBLE_HAVE_X86_AVX512_VNNI
  if (isa == Isa::kAvx512 && has_avx512_vnni()) return kInt8MatvecAvx512Vnni;
#endif
#if NIBBLE_HAVE_X86_AVX2
  if (isa >= Isa::kAvx2) return kInt8MatvecAvx2;  // AVX-512 without VNNI has all of it
#endif
  static_cast<void>(isa);
  return kInt8MatvecScalar;
}

const Int8MatmulTable& active_int8_matmul() {
#if NIBBLE_HAVE_X86_AVX512_VNNI
  if (&active_int8_matvec() == &kInt8MatvecAvx512Vnni) return kInt8MatmulAvx512Vnni;
#endif
#if NIBBLE_HAVE_X86_AVX2
  if (&active_int8_matvec() == &kInt8MatvecAvx2) return kInt8MatmulAvx2;
#endif
  return kInt8MatmulScalar;
}

}  // namespace nibble::quant
