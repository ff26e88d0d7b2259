#include "core/machine/scratch_memory.h"

#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <filesystem>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/matrix_view.h"
#include "tests/support/anonymous_memory.h"
#include "tests/support/files.h"

namespace nibble {
namespace {

constexpr std::size_t kSide = 2048;  // 16 MiB of float
constexpr std::int64_t kMatrixBytes = kSide * kSide * sizeof(float);
// What the process may take meanwhile for other things: a fourth of a matrix, so that none passes as that.
constexpr std::int64_t kSlack = kMatrixBytes / 4;

Matrix<float> counted_matrix() {
  Matrix<float> matrix(kSide, kSide);
  std::iota(matrix.values().begin(), matrix.values().end(), 0.0f);
  return matrix;
}

bool is_counted(const Matrix<float>& matrix) {
  float expected = 0.0f;
  for (const float value : matrix.values())
    if (value != expected++) return false;
  return true;
}

TEST(ScratchMemory, KeepsLargeBuffersOutOfAnonymousMemory) {
  NIBBLE_NEEDS_OWN_ANONYMOUS_MEMORY();
  const test::TempDir dir;
  const std::int64_t before = test::anonymous_bytes();
  Matrix<float> matrix;
  {
    const ScratchMemory scratch(dir.path(), 0);
    matrix = counted_matrix();
    EXPECT_LT(test::anonymous_bytes() - before, kSlack);
  }
  EXPECT_TRUE(is_counted(matrix));
  const Matrix<float> copy = matrix;  // no longer in scratch
  EXPECT_TRUE(is_counted(copy));
  EXPECT_GT(test::anonymous_bytes() - before, kMatrixBytes - kSlack);
}

TEST(ScratchMemory, LeavesNothingInTheDirectory) {
  const test::TempDir dir;
  const ScratchMemory scratch(dir.path(), 0);
  const Matrix<float> matrix = counted_matrix();
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(ScratchMemory, ReleasesBuffersInAnyOrderAndByMove) {
  const test::TempDir dir;
  Matrix<float> outlives = counted_matrix(), kept;
  {
    const ScratchMemory scratch(dir.path(), 0);
    kept = counted_matrix();
    Matrix<float> moved = std::move(outlives);  // a heap buffer released within
    EXPECT_TRUE(is_counted(moved));
  }
  LargeVector<float> grown;
  {
    const ScratchMemory scratch(dir.path(), 0);
    for (std::size_t i = 0; i < kSide * kSide; ++i) grown.push_back(static_cast<float>(i));  // from small to large
  }
  EXPECT_TRUE(is_counted(kept));
  EXPECT_TRUE(std::equal(grown.begin(), grown.end(), kept.values().begin(), kept.values().end()));
}

TEST(ScratchMemory, IsItsThreadsAloneAndTheInnermostCounts) {
  NIBBLE_NEEDS_OWN_ANONYMOUS_MEMORY();
  const test::TempDir dir;
  const ScratchMemory scratch(dir.path(), 0);
  std::thread([&] {
    const std::int64_t before = test::anonymous_bytes();
    const Matrix<float> matrix = counted_matrix();
    EXPECT_GT(test::anonymous_bytes() - before, kMatrixBytes - kSlack);
  }).join();
  {
    const ScratchMemory inner(dir / "missing", 0);
    EXPECT_THROW(counted_matrix(), FormatError);
  }
  EXPECT_NO_THROW(counted_matrix());
}

TEST(ScratchMemory, HoldsAsMuchAsItMay) {
  NIBBLE_NEEDS_OWN_ANONYMOUS_MEMORY();
  const test::TempDir dir;
  const std::int64_t before = test::anonymous_bytes();
  const ScratchMemory scratch(dir.path(), static_cast<std::uint64_t>(kMatrixBytes + kSlack));
  std::optional<Matrix<float>> held = counted_matrix();
  EXPECT_GT(test::anonymous_bytes() - before, kMatrixBytes - kSlack);
  const Matrix<float> mapped = counted_matrix();
  EXPECT_LT(test::anonymous_bytes() - before, kMatrixBytes + kSlack);
  held.reset();  // room for another
  const std::int64_t without = test::anonymous_bytes();
  const Matrix<float> again = counted_matrix();
  EXPECT_GT(test::anonymous_bytes() - without, kMatrixBytes - kSlack);
  EXPECT_TRUE(is_counted(mapped) && is_counted(again));
}

TEST(ScratchMemory, ReachesTheLoopsOfItsThread) {
  NIBBLE_NEEDS_OWN_ANONYMOUS_MEMORY();
  const test::TempDir dir;
  const std::int64_t before = test::anonymous_bytes();
  const ThreadTeam team(3);
  std::array<Matrix<float>, 3> made;
  {
    const ScratchMemory scratch(dir.path(), 0);
    std::barrier all_at_once(3);  // so that each is of another thread
    parallel_for(made.size(), [&](std::size_t i) {
      all_at_once.arrive_and_wait();
      made[i] = counted_matrix();
    });
  }
  EXPECT_LT(test::anonymous_bytes() - before, kSlack);
  parallel_for(made.size(), [&](std::size_t i) { made[i] = counted_matrix(); });
  EXPECT_GT(test::anonymous_bytes() - before, 3 * kMatrixBytes - kSlack);
}

TEST(ScratchMemory, NamesTheDirectoryAndTheReason) {
  const test::TempDir dir;
  const ScratchMemory scratch(dir / "missing", 0);
  try {
    counted_matrix();
    FAIL() << "expected an error";
  } catch (const FormatError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("16777216 bytes in '" + (dir / "missing").string() + "'"), std::string::npos) << message;
    EXPECT_NE(message.find("No such file or directory"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace nibble
