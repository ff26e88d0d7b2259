#include "model/checkpoint/tensor_checks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/random.h"

namespace nibble::model {
namespace {

template <class Bits>
std::optional<std::size_t> first_non_finite_of(DType dtype, const std::vector<Bits>& bits) {
  std::string bytes(1 + bits.size() * sizeof(Bits), '\0');  // one byte in front makes it unaligned
  if (!bits.empty()) std::memcpy(bytes.data() + 1, bits.data(), bits.size() * sizeof(Bits));
  TensorView view{"x", dtype, {bits.size()}, std::as_bytes(std::span(bytes)).subspan(1)};
  return first_non_finite(view);
}

/// Random finite numbers, then `bad` at one place and at the end.
template <class Bits>
void expect_found(DType dtype, Bits exponent, const std::vector<Bits>& bad) {
  Random random(1);
  std::vector<Bits> bits(3000);
  for (Bits& each : bits) {
    each = static_cast<Bits>(random.next());
    if ((each & exponent) == exponent) each = static_cast<Bits>(each & ~exponent);
  }
  bits[7] =
      static_cast<Bits>(exponent - 1);  // the largest finite number has all mantissa bits and one exponent bit less
  EXPECT_EQ(first_non_finite_of(dtype, bits), std::nullopt) << dtype_name(dtype);
  for (const std::size_t place : {0u, 1u, 1023u, 1024u, 2047u, 2999u}) {
    for (const Bits each : bad) {
      std::vector<Bits> damaged = bits;
      damaged[place] = damaged[2999] = each;
      EXPECT_EQ(first_non_finite_of(dtype, damaged), place) << dtype_name(dtype);
    }
  }
}

TEST(FirstNonFinite, FindsInfinitiesAndNansOfBothSigns) {
  expect_found<std::uint16_t>(DType::kF16, 0x7C00, {0x7C00, 0xFC00, 0x7C01, 0xFE00});
  expect_found<std::uint16_t>(DType::kBF16, 0x7F80, {0x7F80, 0xFF80, 0x7F81, 0xFFC0});
  expect_found<std::uint32_t>(DType::kF32, 0x7F800000, {0x7F800000, 0xFF800000, 0x7F800001, 0xFFC00000});
  expect_found<std::uint64_t>(DType::kF64, 0x7FF0000000000000, {0x7FF0000000000000, 0xFFF0000000000001});
}

// The largest finite numbers of E4M3 have a full exponent: only a full fraction too makes a NaN.
TEST(FirstNonFinite, FindsThoseOf8BitFloats) {
  expect_found<std::uint8_t>(DType::kF8E4M3, 0x7F, {0x7F, 0xFF});
  expect_found<std::uint8_t>(DType::kF8E5M2, 0x7C, {0x7C, 0xFC, 0x7D, 0xFF});
  expect_found<std::uint8_t>(DType::kF8E8M0, 0xFF, {0xFF});
}

TEST(FirstNonFinite, FindsNothingInIntegersAndEmptyTensors) {
  EXPECT_EQ(first_non_finite_of<std::uint16_t>(DType::kU16, {0xFFFF, 0x7C00}), std::nullopt);
  EXPECT_EQ(first_non_finite_of<std::uint16_t>(DType::kF16, {}), std::nullopt);
}

}  // namespace
}  // namespace nibble::model
