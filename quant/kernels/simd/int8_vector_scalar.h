#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "quant/kernels/packing/code_layout.h"
#include "quant/kernels/simd/least_activation.h"
#include "quant/kernels/simd/plain_block_product.h"
#include "quant/kernels/simd/vector_scalar.h"

// The vector type of int8_matvec_simd.h and int8_matmul_simd.h for every other processor.
namespace nibble::quant {
namespace {

struct Int8VectorScalar : VectorScalar {
  typedef std::int32_t Sums __attribute__((vector_size(64)));
  struct Inputs {
    const std::int8_t* first;
    std::size_t stride;  // from one lane's four to the next one's
  };

  static Sums set_sums(int value) { return Sums{} + value; }
  static Sums add_sums(Sums a, Sums b) { return a + b; }
  static F floats(Sums sums) { return __builtin_convertvector(sums, F); }
  static Sums small_integers(const std::uint8_t* p) {
    Sums integers{};
    for (std::size_t i = 0; i < kLanes; ++i) integers[i] = p[i];
    return integers;
  }
  static Sums less_products(Sums sums, Sums integers, int factor) { return sums - integers * factor; }
  static Inputs inputs(const std::int8_t* x) { return {x, 4}; }
  static Inputs four_inputs(const std::int8_t* x) { return {x, 0}; }

  struct AnyBytes {
    static constexpr int kLess = 0;
    static Sums dot(Sums sums, Bytes w, Inputs x) {
      for (std::size_t i = 0; i < kLanes; ++i)
        for (std::size_t b = 0; b < 4; ++b)
          sums[i] += static_cast<int>(w[i] >> 8 * b & 255) * x.first[i * x.stride + b];
      return sums;
    }
  };
  using SmallBytes = AnyBytes;

  template <class Product, bool>
  using BlockProduct = PlainBlockProduct<Int8VectorScalar, Product>;

  template <int kBits>
  struct Entries {
    using Product = AnyBytes;
    const std::uint8_t* table;
    explicit Entries(const std::uint8_t* entries) : table(entries) {}
    Bytes bytes(Bytes field) const {
      Bytes found{};
      for (std::size_t i = 0; i < kLanes; ++i)
        for (std::size_t b = 0; b < 4; ++b)
          found[i] |= static_cast<std::uint32_t>(table[field[i] >> 8 * b & ((1u << kBits) - 1)]) << 8 * b;
      return found;
    }
  };

  template <int kBits>
  struct Codes {
    using Product = SmallBytes;
    Bytes bytes(Bytes field) const { return field & ((1u << kBits) - 1) * 0x01010101u; }
  };

  static void quantize_block(const float* x, std::int8_t* x8, float& scale, std::int32_t& sum) {
    float largest = 0.0f;
    bool finite = true;
    for (std::size_t j = 0; j < kBlockInputs; ++j) {
      largest = std::max(largest, std::abs(x[j]));
      finite = finite && std::isfinite(x[j]);
    }
    const float inverse = finite && largest > kLeastActivation ? 127.0f / largest : 0.0f;
    sum = 0;
    for (std::size_t j = 0; j < kBlockInputs; ++j) {
      x8[j] = finite ? static_cast<std::int8_t>(std::lrint(x[j] * inverse)) : std::int8_t{0};
      sum += x8[j];
    }
    scale = finite ? largest / 127.0f : std::numeric_limits<float>::quiet_NaN();
  }
};

}  // namespace
}  // namespace nibble::quant
