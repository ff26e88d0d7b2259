#include "core/isa.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "core/error.h"

namespace nibble {
namespace {

// Evaluated in a child process, because active_isa() decides once per process.
int exit_code_with(const char* value) {
  setenv("NIBBLE_FORCE_ISA", value, 1);
  try {
    return active_isa() == best_supported_isa() ? 10 : 11;
  } catch (const InvalidArgument& error) {
    return std::string(error.what()).find(value) != std::string::npos ? 12 : 13;
  }
}

TEST(ActiveIsa, TheForcedLevelIsTheOneThatRuns) {
  const char* forced = std::getenv("NIBBLE_FORCE_ISA");
  if (forced == nullptr) GTEST_SKIP() << "runs in the @scalar, @avx2 and @avx512 variants";
  EXPECT_EQ(isa_name(active_isa()), forced);
}

using IsaDeathTest = testing::Test;

TEST(IsaDeathTest, AnUnknownNameIsRefusedByName) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::_Exit(exit_code_with("sse9")), testing::ExitedWithCode(12), "");
}

TEST(IsaDeathTest, AnEmptyValueMeansTheBest) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::_Exit(exit_code_with("")), testing::ExitedWithCode(10), "");
}

}  // namespace
}  // namespace nibble
