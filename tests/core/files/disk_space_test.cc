#include "core/files/disk_space.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble {
namespace {

TEST(DiskSpace, MoreThanThereIsIsRefused) {
  const test::TempDir dir;
  EXPECT_NO_THROW(require_disk_space(dir.path(), 1, "work", "its files"));
  EXPECT_TRUE(test::throws_with<FormatError>(
      [&] { require_disk_space(dir.path(), std::uint64_t{1} << 60, "work", "its files"); },
      "work: needs 1099511627776 MB more", "for its files", "are free"));
  try {
    require_disk_space(dir.path(), std::uint64_t{1} << 60, "work", "its files");
    FAIL() << "there is no such disk";
  } catch (const FormatError& error) {  // for those who go on later where a disk was full
    EXPECT_EQ(error.code, std::errc::no_space_on_device);
  }
  EXPECT_TRUE(test::throws_with<FormatError>([&] { require_disk_space(dir / "missing", 1, "work", "its files"); },
                                             "cannot see how much room", "missing"));
}

}  // namespace
}  // namespace nibble
