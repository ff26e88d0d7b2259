#include "eval/storage/transform.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "eval/storage/bit_stream.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

BitPatterns random_patterns(unsigned width, std::size_t count, bool offset_binary) {
  Random random(width * 1000 + count);
  BitPatterns patterns{.values = {}, .width = width, .offset_binary = offset_binary};
  for (std::size_t i = 0; i < count; ++i)
    patterns.values.push_back(static_cast<std::uint32_t>(random.next()) >> (32 - width));
  return patterns;
}

TEST(Transform, EveryStepIsUndoneAtEveryWidth) {
  for (unsigned width = 1; width <= 32; ++width)
    for (const bool offset : {false, true})
      for (const ValueStep step : {ValueStep::kNone, ValueStep::kDelta, ValueStep::kZigzag, ValueStep::kDeltaZigzag}) {
        SCOPED_TRACE(testing::Message() << "width " << width << ", step " << step_name(step));
        const BitPatterns patterns = random_patterns(width, 101, offset);
        std::vector<std::uint32_t> values = apply_step(step, patterns);
        for (const std::uint32_t v : values) ASSERT_EQ(std::uint64_t{v} >> width, 0u);
        undo_step(step, width, offset, values);
        EXPECT_EQ(values, patterns.values);
      }
}

TEST(Transform, ZigzagNumbersCodesByDistanceFromTheMiddle) {
  const BitPatterns codes{.values = {8, 7, 9, 6, 10, 0, 15}, .width = 4, .offset_binary = true};
  EXPECT_EQ(apply_step(ValueStep::kZigzag, codes), (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 15, 14}));
}

TEST(Transform, DeltasWrapAround) {
  const BitPatterns codes{.values = {1, 3, 2, 0}, .width = 2, .offset_binary = true};
  EXPECT_EQ(apply_step(ValueStep::kDelta, codes), (std::vector<std::uint32_t>{1, 2, 3, 2}));
  EXPECT_EQ(apply_step(ValueStep::kDeltaZigzag, codes), (std::vector<std::uint32_t>{2, 3, 1, 3}));
}

TEST(Transform, EveryLayoutIsPickedUpAgain) {
  for (unsigned width = 1; width <= 32; ++width)
    for (const std::size_t count : {0u, 1u, 7u, 8u, 9u, 100u})
      for (const Layout layout : {Layout::kPacked, Layout::kBytePlanes, Layout::kBitPlanes}) {
        SCOPED_TRACE(testing::Message() << count << " of " << width << " bits, " << layout_name(layout));
        const BitPatterns patterns = random_patterns(width, count, false);
        EXPECT_EQ(pick_up(layout, lay_out(layout, patterns.values, width), count, width), patterns.values);
      }
}

TEST(Transform, LayoutsPutBytesWhereTheyAreSaidToBe) {
  const std::vector<std::uint32_t> values = {0x0102, 0x0304, 0x8506};
  const auto bytes_of = [](std::initializer_list<int> list) {
    std::vector<std::byte> bytes;
    for (const int b : list) bytes.push_back(static_cast<std::byte>(b));
    return bytes;
  };
  EXPECT_EQ(lay_out(Layout::kPacked, values, 16), bytes_of({2, 1, 4, 3, 6, 0x85}));
  EXPECT_EQ(lay_out(Layout::kBytePlanes, values, 16), bytes_of({2, 4, 6, 1, 3, 0x85}));
  // Bit 0 of the three values: 0, 0, 0; bit 1: 1, 0, 1; …
  EXPECT_EQ(lay_out(Layout::kBitPlanes, values, 16), bytes_of({0, 5, 6, 0, 0, 0, 0, 0, 7, 2, 4, 0, 0, 0, 0, 4}));
  EXPECT_EQ(lay_out(Layout::kPacked, std::vector<std::uint32_t>{1, 2, 7}, 3), bytes_of({0b11010001, 1}));
}

TEST(Transform, AWrongSizeIsRefused) {
  EXPECT_TRUE(test::throws_with<FormatError>([] { pick_up(Layout::kBitPlanes, std::vector<std::byte>(3), 9, 2); },
                                             "bit planes", "expected 4 bytes, got 3"));
}

TEST(BitStream, ReadingPastTheEndIsRefused) {
  const std::vector<std::byte> bytes(2);
  BitReader reader(bytes);
  EXPECT_EQ(reader.take(16), 0u);
  EXPECT_TRUE(test::throws_with<FormatError>([&] { reader.take(1); }, "ends after 2 bytes"));
}

}  // namespace
}  // namespace nibble::eval
