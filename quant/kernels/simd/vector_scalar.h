#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/matrix/dtype.h"

// The vector type of code_vectors.h and exact_matvec_simd.h for every other processor, in the compiler's own vectors,
// which it maps to whatever the processor has.
namespace nibble::quant {
namespace {

struct VectorScalar {
  static constexpr std::size_t kLanes = 16;
  typedef std::uint32_t Bytes __attribute__((vector_size(64)));
  typedef float F __attribute__((vector_size(64)));

  // Byte b of a lane is bits 8 b … 8 b + 7, whatever the byte order of the processor.
  static Bytes load_bytes(const std::uint8_t* p) {
    Bytes v;
    if constexpr (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
      std::memcpy(&v, p, sizeof v);
    } else {
      for (std::size_t i = 0; i < kLanes; ++i) {
        std::uint32_t lane = 0;
        for (std::size_t b = 4; b-- > 0;) lane = lane << 8 | p[4 * i + b];
        v[i] = lane;
      }
    }
    return v;
  }
  static void store_bytes(std::uint8_t* p, Bytes v) {
    if constexpr (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
      std::memcpy(p, &v, sizeof v);
    } else {
      for (std::size_t i = 0; i < 4 * kLanes; ++i) p[i] = static_cast<std::uint8_t>(v[i / 4] >> 8 * (i % 4));
    }
  }
  static Bytes widen_bytes(const std::uint8_t* p) {
    Bytes v;
    for (std::size_t i = 0; i < kLanes; ++i) v[i] = p[i];
    return v;
  }
  template <int kShift>
  static Bytes srl(Bytes v) {
    return v >> kShift;
  }
  template <int kShift>
  static Bytes sll(Bytes v) {
    return v << kShift;
  }
  template <int kMask>
  static Bytes merge(Bytes a, Bytes b) {
    constexpr std::uint32_t mask = static_cast<std::uint32_t>(kMask) * 0x01010101u;
    return (a & mask) | (b & ~mask);
  }

  template <class Make>
  static F each(const Make& make) {
    float lanes[kLanes];
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = make(i);
    return load(lanes);
  }
  static F zero() { return F{}; }
  static F set(float x) { return F{} + x; }
  static F load(const void* p) {
    F v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static F add(F a, F b) { return a + b; }
  static F mul(F a, F b) { return a * b; }
  static F sub(F a, F b) { return a - b; }
  static F fma(F a, F b, F c) { return a * b + c; }  // two roundings: one would cost a library call
  static F fnma(F a, F b, F c) { return c - a * b; }
  static void store(float* p, F v) { std::memcpy(p, &v, sizeof v); }
  static float sum(F v) {
    float total = 0.0f;
    for (std::size_t i = 0; i < kLanes; ++i) total += v[i];
    return total;
  }
  static std::uint16_t two_bytes(const void* p, std::size_t index) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, static_cast<const char*>(p) + 2 * index, 2);
    return bits;
  }
  static F load_half(const void* p) {
    return each([&](std::size_t i) { return f16_to_f32(two_bytes(p, i)); });
  }
  static F load_bfloat(const void* p) {
    return each([&](std::size_t i) { return bf16_to_f32(two_bytes(p, i)); });
  }
  static F load_small(const std::uint8_t* p) {
    return each([&](std::size_t i) { return static_cast<float>(p[i]); });
  }
  template <int kBits>
  static F integers(Bytes v) {
    return each([&](std::size_t i) { return static_cast<float>(v[i] & ((1u << kBits) - 1)); });
  }
  template <int kBits>
  struct Lookup {
    const float* table;
    explicit Lookup(const float* entries) : table(entries) {}
    F operator()(Bytes v) const {
      return each([&](std::size_t i) { return table[v[i] & ((1u << kBits) - 1)]; });
    }
  };
};

}  // namespace
}  // namespace nibble::quant
