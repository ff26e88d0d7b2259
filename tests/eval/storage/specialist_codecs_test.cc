#include "eval/storage/specialist_codecs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/random.h"
#include "eval/storage/entropy.h"
#include "eval/storage/rans.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

using test::throws_with;

// Codes of normally distributed values, as a palette gives them: the middle ones are frequent.
std::vector<std::uint8_t> bell_codes(std::size_t count, unsigned bits) {
  Random random(7);
  std::vector<std::uint8_t> codes(count);
  const double middle = std::ldexp(1.0, static_cast<int>(bits) - 1);
  for (std::uint8_t& code : codes)
    code = static_cast<std::uint8_t>(std::clamp(middle + middle / 3.0 * random.normal(), 0.0, 2.0 * middle - 1.0));
  return codes;
}

TEST(Rans, GivesBackWhatWentIn) {
  for (const std::size_t count : {0u, 1u, 2u, 3u, 5u, 1000u, 100'003u})
    for (const unsigned bits : {1u, 3u, 4u, 8u}) {
      SCOPED_TRACE(testing::Message() << count << " codes of " << bits << " bits");
      const std::vector<std::uint8_t> codes = bell_codes(count, bits);
      EXPECT_EQ(rans_decode(rans_encode(codes), count), codes);
    }
}

TEST(Rans, ManageEvenOneSymbolAndAllSymbols) {
  const std::vector<std::uint8_t> same(5000, 200);
  EXPECT_LT(rans_encode(same).size(), 64u);  // the header and four states
  EXPECT_EQ(rans_decode(rans_encode(same), same.size()), same);
  std::vector<std::uint8_t> rare(100'000, 3);  // every other symbol once: frequencies below the resolution
  for (std::size_t s = 0; s < 256; ++s) rare[s * 300] = static_cast<std::uint8_t>(s);
  EXPECT_EQ(rans_decode(rans_encode(rare), rare.size()), rare);
}

TEST(Rans, ReachesTheEntropy) {
  const std::size_t count = 400'000;
  const std::vector<std::uint8_t> codes = bell_codes(count, 4);
  const std::vector<std::uint32_t> values(codes.begin(), codes.end());
  const double entropy = entropies(values, {}, 4).order0;
  const double bits = static_cast<double>(rans_encode(codes).size()) * 8.0 / static_cast<double>(count);
  // 0.1 % for rounded frequencies, and 80 bytes of header and states.
  EXPECT_LE(bits, entropy * 1.001 + 80.0 * 8.0 / static_cast<double>(count));
  EXPECT_GE(bits, entropy * 0.999);
}

TEST(Rans, DamagedStreamsAreRefusedOrReadAsSomethingElse) {
  const std::vector<std::uint8_t> codes = bell_codes(2000, 4);
  std::vector<std::byte> bytes = rans_encode(codes);
  for (const std::size_t size : {std::size_t{0}, std::size_t{10}, std::size_t{40}, bytes.size() - 1})
    EXPECT_TRUE(
        throws_with<FormatError>([&] { rans_decode(std::span(bytes).first(size), codes.size()); }, "ends after"))
        << size;
  bytes[33] ^= std::byte{0x10};  // a frequency
  EXPECT_TRUE(throws_with<FormatError>([&] { rans_decode(bytes, codes.size()); }, "frequencies sum to"));
}

TEST(Simple8b, GivesBackValuesOfAllSizes) {
  Random random(11);
  for (unsigned bits = 0; bits <= 32; ++bits)
    for (const std::size_t count : {0u, 1u, 59u, 240u, 1001u}) {
      SCOPED_TRACE(testing::Message() << count << " values of " << bits << " bits");
      std::vector<std::uint32_t> values(count);
      for (std::uint32_t& v : values) v = bits == 0 ? 0 : static_cast<std::uint32_t>(random.next() >> (64 - bits));
      EXPECT_EQ(simple8b_decode(simple8b_encode(values), count), values);
    }
}

TEST(Simple8b, PacksFifteenFourBitCodesToAWord) {
  EXPECT_EQ(simple8b_encode(std::vector<std::uint32_t>(150, 9)).size(), 80u);
  EXPECT_EQ(simple8b_encode(std::vector<std::uint32_t>(480, 0)).size(), 16u);
}

TEST(Simple8b, DamagedStreamsAreRefused) {
  EXPECT_TRUE(throws_with<FormatError>([] { simple8b_decode(std::vector<std::byte>(12), 241); }, "240 of 241"));
  EXPECT_TRUE(throws_with<FormatError>([] { simple8b_decode(std::vector<std::byte>(8, std::byte{0xFF}), 1); },
                                       "more than 32 bits"));
}

TEST(Gorilla, GivesBackFloatsOfBothWidths) {
  Random random(13);
  for (const unsigned width : {16u, 32u})
    for (const std::size_t count : {0u, 1u, 2u, 5000u}) {
      std::vector<std::uint32_t> values(count);
      std::uint32_t walk = 0;
      for (std::uint32_t& v : values) {
        const auto step = static_cast<std::uint32_t>(random.next());
        walk = random.below(3) == 0 ? step : random.below(2) == 0 ? walk : walk + (step & 0xFu);
        v = walk & (width == 16 ? 0xFFFFu : 0xFFFFFFFFu);
      }
      EXPECT_EQ(gorilla_decode(gorilla_encode(values, width), count, width), values) << width << " bits, " << count;
    }
}

TEST(Gorilla, RepeatsCostABit) {
  EXPECT_EQ(gorilla_encode(std::vector<std::uint32_t>(801, 0x3C00), 16).size(), 2u + 100u);
}

TEST(Gorilla, DamagedStreamsAndOtherWidthsAreRefused) {
  EXPECT_TRUE(throws_with<FormatError>([] { gorilla_decode(std::vector<std::byte>(3), 100, 16); }, "ends after 3"));
  EXPECT_TRUE(throws_with<FormatError>([] { gorilla_decode(std::vector<std::byte>(64, std::byte{0xFF}), 9, 16); },
                                       "leading zeros"));
  EXPECT_TRUE(throws_with<InvalidArgument>([] { gorilla_encode({}, 8); }, "width 8"));
}

}  // namespace
}  // namespace nibble::eval
