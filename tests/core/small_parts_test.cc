#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <new>
#include <stdexcept>
#include <vector>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/error_kind.h"
#include "core/files/hash.h"
#include "core/machine/memory.h"
#include "core/machine/program_identity.h"
#include "core/random.h"
#include "core/text/suggest.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(CheckedMath, OverflowIsNamed) {
  EXPECT_EQ(checked_multiply(1u << 31, 1u << 31, "x"), std::uint64_t{1} << 62);
  EXPECT_EQ(checked_add(kMax - 1, 1, "x"), kMax);
  EXPECT_TRUE(test::throws_with<FormatError>(
      [] { checked_multiply(std::uint64_t{1} << 32, std::uint64_t{1} << 32, "shape of 'w'"); }, "shape of 'w'",
      "overflows"));
  EXPECT_TRUE(test::throws_with<FormatError>([] { checked_add(kMax, 1, "offset"); }, "offset", "overflows"));
  EXPECT_EQ(checked_element_count(std::vector<std::uint64_t>{}, "x"), 1u);
  EXPECT_EQ(checked_element_count(std::vector<std::uint64_t>{3, 0, 5}, "x"), 0u);
  EXPECT_EQ(divide_up(0, 8), 0u);
  EXPECT_EQ(divide_up(17, 8), 3u);
  EXPECT_EQ(divide_up(kMax, 2), (std::uint64_t{1} << 63));
}

TEST(ErrorKind, IsOfTheErrorHoweverItIsCaught) {
  const auto name = [](const std::exception& error) { return error_kind_name(error_kind(error)); };
  EXPECT_EQ(name(InvalidArgument("x")), "InvalidArgument");
  EXPECT_EQ(name(FormatError("x")), "FormatError");
  EXPECT_EQ(name(std::filesystem::filesystem_error("x", std::error_code())), "FormatError");
  EXPECT_EQ(name(NumericalError("x")), "NumericalError");
  EXPECT_EQ(name(std::bad_alloc()), "OutOfMemory");
  EXPECT_EQ(name(std::runtime_error("x")), "Unexpected");
}

TEST(ProgramIdentity, BuildsHaveTheLinkersHash) {
  const std::string id = build_id();
  EXPECT_EQ(id.size(), 40u) << id;  // SHA-1
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
  EXPECT_EQ(build_id(), id);
}

TEST(Hasher, PiecesDoNotMatterButTextBordersDo) {
  const char text[] = "calibration";
  const auto bytes = std::as_bytes(std::span(text, std::strlen(text)));
  EXPECT_EQ(Hasher().update(bytes.first(3)).update(bytes.subspan(3)).hex(), hash_hex(bytes));
  EXPECT_EQ(hash_hex(bytes).size(), 32u);
  EXPECT_NE(Hasher().update("ab").update("c").hex(), Hasher().update("a").update("bc").hex());
  EXPECT_NE(Hasher().update(std::string_view()).hex(), Hasher().hex());
}

TEST(Hasher, GivesThePublishedValueForEmptyInput) {
  EXPECT_EQ(hash_hex({}), "99aa06d3014798d86001c324468d497f");  // XXH3-128, seed 0, from the xxHash specification
}

TEST(NearestName, FindsTypingMistakesAndNothingElse) {
  const std::vector<std::string_view> names{"granularity", "group_size", "bits", "weighting"};
  EXPECT_EQ(nearest_name("granularty", names), "granularity");
  EXPECT_EQ(nearest_name("gruop_size", names), "group_size");
  EXPECT_EQ(nearest_name("bit", names), "bits");
  EXPECT_EQ(nearest_name("temperature", names), "");
  EXPECT_EQ(nearest_name(std::string(10000, 'b'), names), "");
  EXPECT_EQ(did_you_mean("bist", names), "; did you mean 'bits'?");
  EXPECT_EQ(did_you_mean("zzzzzz", names), "");
}

TEST(Random, IsTheSameSequenceEverywhere) {
  Random random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);  // published test vector of SplitMix64
  EXPECT_EQ(random.next(), 3203168211198807973u);
}

TEST(Random, NumbersHaveTheMomentsTheyShould) {
  Random random(5);
  double sum = 0, sum2 = 0, normal = 0, normal2 = 0;
  constexpr int kDraws = 100000;
  std::vector<int> counts(7);
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.uniform(), n = random.normal();
    ASSERT_TRUE(u >= 0.0 && u < 1.0);
    sum += u;
    sum2 += u * u;
    normal += n;
    normal2 += n * n;
    ++counts[random.below(7)];
  }
  // Five standard errors of each mean: sd/sqrt(N) with sd 0.289, 0.298, 1 and 1.41.
  EXPECT_TRUE(test::near(sum / kDraws, 0.5, {.abs = 5 * 0.289 / 316}));
  EXPECT_TRUE(test::near(sum2 / kDraws, 1.0 / 3.0, {.abs = 5 * 0.298 / 316}));
  EXPECT_TRUE(test::near(normal / kDraws, 0.0, {.abs = 5 * 1.0 / 316}));
  EXPECT_TRUE(test::near(normal2 / kDraws, 1.0, {.abs = 5 * 1.42 / 316}));
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 7, 5 * 111);  // binomial sd 111
}

TEST(MemoryUse, SeesALargeAllocation) {
  const PeakAnonymousMemory peak;
  const std::uint64_t before = memory_use().anonymous_bytes;
  {
    std::vector<char> block(64 << 20, 'x');
    EXPECT_GE(memory_use().anonymous_bytes, before + (60u << 20));
    timespec wait{0, 50'000'000};  // several sampling periods
    nanosleep(&wait, nullptr);
    EXPECT_EQ(block[block.size() / 2], 'x');
  }
  EXPECT_GE(peak.bytes(), before + (60u << 20));
  EXPECT_GE(memory_use().peak_resident_bytes, 60u << 20);
}

}  // namespace
}  // namespace nibble
