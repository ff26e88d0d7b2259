#pragma once

namespace nibble::quant {
namespace {

/// The BlockProduct of int8_matmul_simd.h for products that add up in 32 bits as they come. `Lanes` has Sums, Bytes and
/// Inputs.
template <class Lanes, class Product>
struct PlainBlockProduct {
  using Sums = typename Lanes::Sums;
  static Sums begin(Sums start) { return start; }
  static Sums dot(Sums sums, typename Lanes::Bytes w, typename Lanes::Inputs x) { return Product::dot(sums, w, x); }
  static Sums end(Sums sums, Sums) { return sums; }
};

}  // namespace
}  // namespace nibble::quant
