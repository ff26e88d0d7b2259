#include "eval/sweep/claims.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/files.h"

namespace nibble::eval {
namespace {

TEST(Claims, OneHolderAtATimeEvenWithinAProcess) {
  const test::TempDir directory;
  const Claims claims(directory / "claims"), others(directory / "claims");
  auto claim = claims.try_claim("a");
  ASSERT_TRUE(claim);
  EXPECT_FALSE(claims.try_claim("a"));
  EXPECT_FALSE(others.try_claim("a", Claims::Kind::kShared));
  EXPECT_TRUE(others.try_claim("b"));
  EXPECT_TRUE(others.is_claimed("a"));
  claim.reset();
  EXPECT_FALSE(others.is_claimed("a"));
  EXPECT_TRUE(others.try_claim("a"));
}

TEST(Claims, SharedOnesKeepExclusiveOnesOut) {
  const test::TempDir directory;
  const Claims claims(directory / "claims");
  auto first = claims.try_claim("a");
  ASSERT_TRUE(first);
  first->share();
  auto second = claims.try_claim("a", Claims::Kind::kShared);
  EXPECT_TRUE(second);
  EXPECT_FALSE(claims.try_claim("a"));
  first.reset();
  second.reset();
  EXPECT_TRUE(claims.try_claim("a"));
}

TEST(Claims, DieWithTheirProcess) {
  const test::TempDir directory;
  const Claims claims(directory / "claims");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto claim = claims.try_claim("a");
    const char held = claim ? 'y' : 'n';
    if (write(ready[1], &held, 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char held = 0;
  ASSERT_EQ(read(ready[0], &held, 1), 1);
  EXPECT_EQ(held, 'y');
  EXPECT_FALSE(claims.try_claim("a"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(claims.try_claim("a"));
}

}  // namespace
}  // namespace nibble::eval
