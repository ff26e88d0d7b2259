#include "eval/storage/byte_codecs.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

std::vector<std::byte> bytes_with_structure(std::size_t count) {
  Random random(3);
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.below(5) * random.below(5));
  return bytes;
}

TEST(ByteCodecs, EveryOneGivesBackWhatWentIn) {
  for (const ByteCodec& codec : byte_codecs())
    for (const std::size_t count : {0u, 1u, 1000u, 100'000u}) {
      const std::vector<std::byte> bytes = bytes_with_structure(count);
      const std::vector<std::byte> compressed = codec.compress(bytes);
      if (count >= 1000) {
        EXPECT_LT(compressed.size(), count * 7 / 10) << codec.name;
      }
      EXPECT_EQ(codec.expand(compressed, count), bytes) << codec.name << ", " << count << " bytes";
    }
}

TEST(ByteCodecs, AStreamOfAnotherSizeIsRefused) {
  for (const ByteCodec& codec : byte_codecs()) {
    const std::vector<std::byte> compressed = codec.compress(bytes_with_structure(1000));
    for (const std::size_t size : {10u, 999u, 1001u})
      EXPECT_TRUE(test::throws_with<FormatError>([&] { codec.expand(compressed, size); }, "stream")) << codec.name;
  }
}

TEST(ByteCodecs, ADamagedStreamIsRefused) {
  for (const ByteCodec& codec : byte_codecs()) {
    std::vector<std::byte> garbage(200, std::byte{0xA5});
    EXPECT_TRUE(test::throws_with<FormatError>([&] { codec.expand(garbage, 1000); }, "stream")) << codec.name;
  }
}

}  // namespace
}  // namespace nibble::eval
