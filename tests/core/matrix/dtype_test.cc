#include "core/matrix/dtype.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble {
namespace {

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

// Every one of the 65536 patterns through the definition of the format: sign, 5 exponent bits, 10 mantissa bits.
double f16_by_definition(std::uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  if (exponent == 31) return mantissa == 0 ? sign * HUGE_VAL : std::nan("");
  return exponent == 0 ? sign * std::ldexp(mantissa, -24) : sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(F16, EveryPatternDecodesAsTheFormatDefines) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const double expected = f16_by_definition(static_cast<std::uint16_t>(bits));
    const float actual = f16_to_f32(static_cast<std::uint16_t>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual)) << bits;
    } else {
      ASSERT_EQ(bits_of(actual), bits_of(static_cast<float>(expected))) << bits;
    }
  }
}

TEST(F16, EveryFinitePatternSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (!std::isnan(f16_to_f32(half))) {
      ASSERT_EQ(f32_to_f16(f16_to_f32(half)), half);
    }
  }
}

TEST(F16, RoundsHalfToEvenBetweenAllNeighbours) {
  for (std::uint32_t bits = 0; bits < 0x7BFF; ++bits) {  // all positive finite values but the largest
    const auto lower = static_cast<std::uint16_t>(bits), upper = static_cast<std::uint16_t>(bits + 1);
    const float middle = (f16_to_f32(lower) + f16_to_f32(upper)) / 2;  // exact: one more mantissa bit
    const std::uint16_t even = (bits & 1) == 0 ? lower : upper;
    ASSERT_EQ(f32_to_f16(middle), even) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), lower) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 1e30f)), upper) << bits;
    ASSERT_EQ(f32_to_f16(-middle), even | 0x8000) << bits;
  }
}

TEST(F16, OverflowGivesInfinityFromHalfwayToTheNextPowerOn) {
  EXPECT_EQ(f32_to_f16(65504.0f), 0x7BFF);
  EXPECT_EQ(f32_to_f16(std::nextafter(65520.0f, 0.0f)), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7C00);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xFC00);
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(BF16, RoundsHalfToEvenAndKeepsNan) {
  EXPECT_EQ(f32_to_bf16(1.0f), 0x3F80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F808000u)), 0x3F80);  // a tie, even below
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F818000u)), 0x3F82);  // a tie, even above
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F808001u)), 0x3F81);
  EXPECT_EQ(f32_to_bf16(3.4e38f), 0x7F80);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7F800001u)))));
}

// Odd lengths at odd addresses; the destination ends where its allocation ends, so that ASan sees a store past it.
TEST(ConvertToF32, AgreesWithTheScalarDefinitionAtAllLengthsAndOffsets) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (std::size_t count = 0; count <= 67; ++count) {
      for (const std::size_t offset : {0u, 1u, 3u}) {
        std::vector<std::byte> source(offset + 2 * count);
        Random random(count * 7 + offset);
        for (std::byte& byte : source) byte = static_cast<std::byte>(random.next());
        std::vector<float> actual(count), expected(count);
        for (std::size_t i = 0; i < count; ++i) {
          std::uint16_t bits = 0;
          std::memcpy(&bits, source.data() + offset + 2 * i, 2);
          expected[i] = dtype == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
        }
        convert_to_f32(dtype, source.data() + offset, count, actual.data());
        for (std::size_t i = 0; i < count; ++i) {
          if (!std::isnan(expected[i])) {
            ASSERT_EQ(bits_of(actual[i]), bits_of(expected[i]));
          }
          ASSERT_EQ(std::isnan(actual[i]), std::isnan(expected[i]));
        }
      }
    }
  }
}

TEST(ConvertToF16, AgreesWithTheScalarDefinitionAtAllLengths) {
  for (std::size_t count = 0; count <= 67; ++count) {
    Random random(count);
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random.normal() * std::exp(8.0 * random.normal()));
    std::vector<std::uint16_t> actual(count);
    convert_to_f16(values, actual.data());
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(actual[i], f32_to_f16(values[i])) << values[i];
  }
}

TEST(ToBF16, ValuesAndBitsAgreeWithTheScalarDefinitionAtAllLengthsAlsoInPlace) {
  const float special[] = {0.0f,
                           -0.0f,
                           3.4e38f,
                           1e-40f,
                           std::numeric_limits<float>::infinity(),
                           std::bit_cast<float>(0x3F808000u),  // ties, even below
                           std::bit_cast<float>(0xBF818000u),  // and above
                           std::bit_cast<float>(0x7F800001u),  // NaNs, that truncation or a carry would lose
                           std::bit_cast<float>(0xFFFFFFFFu)};
  for (std::size_t count = 0; count <= 67; ++count) {
    Random random(count);
    std::vector<float> values(count);
    for (float& value : values)
      value = random.below(2) == 0 ? special[random.below(std::size(special))] : static_cast<float>(random.normal());
    std::vector<float> actual(count);
    std::vector<std::uint16_t> bits(count);
    round_to_bf16(values, actual.data());
    convert_to_bf16(values, bits.data());
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(bits_of(actual[i]), std::uint32_t{f32_to_bf16(values[i])} << 16) << values[i];
      ASSERT_EQ(bits[i], f32_to_bf16(values[i])) << values[i];
    }
    round_to_bf16(values, values.data());
    EXPECT_TRUE(test::same_bits(values, actual));
  }
}

TEST(ConvertToF32, RefusesIntegers) {
  const std::byte byte{};
  float value = 0;
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { convert_to_f32(DType::kU8, &byte, 1, &value); }, "U8"));
}

// Sign, exponent and fraction taken apart, as the OCP specifications define the values.
double value_of(unsigned code, int exponent_bits, int fraction_bits, int bias) {
  const int exponent = static_cast<int>(code >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double fraction = std::ldexp(static_cast<double>(code & ((1u << fraction_bits) - 1)), -fraction_bits);
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0 + fraction, exponent - bias);
  return (code & 0x80u) != 0 ? -magnitude : magnitude;
}

TEST(ConvertToF32, GivesEveryValueOfThe8BitFloats) {
  std::vector<std::byte> codes(256);
  for (std::size_t code = 0; code < codes.size(); ++code) codes[code] = static_cast<std::byte>(code);
  std::vector<float> e4m3(256), e5m2(256), e8m0(256), expected(256);
  convert_to_f32(DType::kF8E4M3, codes.data(), 256, e4m3.data());
  convert_to_f32(DType::kF8E5M2, codes.data(), 256, e5m2.data());
  convert_to_f32(DType::kF8E8M0, codes.data(), 256, e8m0.data());
  for (unsigned code = 0; code < 256; ++code) {
    SCOPED_TRACE(code);
    const unsigned magnitude = code & 0x7Fu;
    EXPECT_EQ(std::isnan(e4m3[code]), magnitude == 0x7Fu);
    EXPECT_EQ(std::isnan(e5m2[code]), magnitude > 0x7Cu);
    EXPECT_EQ(std::isinf(e5m2[code]), magnitude == 0x7Cu);
    EXPECT_EQ(std::isnan(e8m0[code]), code == 255);
    if (magnitude == 0x7Fu) e4m3[code] = 0.0f;
    if (magnitude >= 0x7Cu) e5m2[code] = 0.0f;
    const auto wanted = [&](bool finite, double value) { return finite ? static_cast<float>(value) : 0.0f; };
    const float of_e4m3 = wanted(magnitude != 0x7Fu, value_of(code, 4, 3, 7)),
                of_e5m2 = wanted(magnitude < 0x7Cu, value_of(code, 5, 2, 15));
    EXPECT_TRUE(test::same_bits(std::span<const float>(&e4m3[code], 1), std::span<const float>(&of_e4m3, 1)));
    EXPECT_TRUE(test::same_bits(std::span<const float>(&e5m2[code], 1), std::span<const float>(&of_e5m2, 1)));
    const auto of_e8m0 = static_cast<float>(std::ldexp(1.0, static_cast<int>(code) - 127));
    if (code < 255) {
      EXPECT_TRUE(test::same_bits(std::span<const float>(&e8m0[code], 1), std::span<const float>(&of_e8m0, 1)));
    }
  }
}

TEST(DTypeNames, RoundTripAndUnknownOnesAreEmpty) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kI32, DType::kI16,
                            DType::kI8, DType::kU64, DType::kU32, DType::kU16, DType::kU8, DType::kBool, DType::kF8E4M3,
                            DType::kF8E5M2, DType::kF8E8M0})
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
  EXPECT_EQ(dtype_from_name("F4"), std::nullopt);
  EXPECT_EQ(dtype_size(DType::kBF16), 2u);
}

}  // namespace
}  // namespace nibble
