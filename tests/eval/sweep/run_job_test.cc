#include "eval/sweep/run_job.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>

#include "core/error.h"

namespace nibble::eval {
namespace {

TEST(IsDiskFull, GoesByTheSystemsCodeNotByTheText) {
  for (const int code : {ENOSPC, EDQUOT, EFBIG}) EXPECT_TRUE(is_disk_full(errno_error("cannot write 'a'", code)));
  const auto full = std::make_error_code(std::errc::no_space_on_device);
  EXPECT_TRUE(is_disk_full(FormatError("any text", full)));
  EXPECT_TRUE(is_disk_full(std::filesystem::filesystem_error("copy", full)));
  EXPECT_FALSE(is_disk_full(errno_error("cannot write 'a'", EACCES)));
  EXPECT_FALSE(is_disk_full(FormatError("cannot open 'No space left on device': it is a directory")));
  EXPECT_FALSE(is_disk_full(InvalidArgument("File too large")));
  EXPECT_FALSE(is_disk_full(std::bad_alloc()));
}

TEST(CellError, NamesTheKind) {
  EXPECT_EQ(cell_error(FormatError("a")).kind, "FormatError");
  EXPECT_EQ(cell_error(NumericalError("a")).kind, "NumericalError");
  EXPECT_EQ(cell_error(InvalidArgument("a")).kind, "InvalidArgument");
  EXPECT_EQ(cell_error(std::bad_alloc()).kind, "OutOfMemory");
  EXPECT_EQ(cell_error(std::runtime_error("a")).kind, "Unexpected");
}

}  // namespace
}  // namespace nibble::eval
