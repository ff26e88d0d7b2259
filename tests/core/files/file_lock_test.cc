#include "core/files/file_lock.h"

#include <gtest/gtest.h>

#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble {
namespace {

TEST(OutputLock, BelongsToOneHolderAndGoesWithIt) {
  const test::TempDir dir;
  {
    const OutputLock lock(dir / "out");
    EXPECT_TRUE(std::filesystem::exists(dir / "out.lock"));
    EXPECT_TRUE(test::throws_with<FormatError>([&] { const OutputLock other(dir / "out"); }, "another process", "out"));
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "out.lock"));
}

TEST(OutputLock, WhatAKilledProcessLeftIsRemovedAndWhatIsHeldStays) {
  const test::TempDir dir;
  remove_left_lock(dir / "out");
  EXPECT_FALSE(std::filesystem::exists(dir / "out.lock")) << "none was there";
  test::write_file(dir / "out.lock", "");
  remove_left_lock(dir / "out");
  EXPECT_FALSE(std::filesystem::exists(dir / "out.lock"));
  const OutputLock lock(dir / "out");
  remove_left_lock(dir / "out");
  EXPECT_TRUE(std::filesystem::exists(dir / "out.lock"));
}

}  // namespace
}  // namespace nibble
