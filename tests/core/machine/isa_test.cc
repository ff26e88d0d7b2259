#include "core/machine/isa.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "core/error.h"

namespace nibble {
namespace {

// Evaluated in a child process, because active_isa() decides once per process.
int exit_code_with(const std::string& value, Isa expected) {
  setenv("NIBBLE_FORCE_ISA", value.c_str(), 1);
  try {
    return active_isa() == expected ? 10 : 11;
  } catch (const InvalidArgument& error) {
    const std::string what = error.what();
    const bool named = what.find("'" + value + "'") != std::string::npos;
    return !named ? 13 : what.find("which this processor lacks; it has scalar") != std::string::npos ? 14 : 12;
  }
}

TEST(ActiveIsa, TheForcedTierIsTheOneThatRuns) {
  const char* forced = std::getenv("NIBBLE_FORCE_ISA");
  if (forced == nullptr) GTEST_SKIP() << "runs in the variants of this test, one per tier";
  EXPECT_EQ(isa_name(active_isa()), forced);
}

TEST(Isa, TiersIncludeTheOnesBeforeThemOfTheirFamilyButForVexEncodedVnni) {
  for (const Isa isa : all_isas()) {
    for (const Isa part : all_isas()) {
      const bool other_family = part != Isa::kScalar && part < Isa::kNeon && isa >= Isa::kNeon;
      const bool beside = other_family || (part == Isa::kAvx2Vnni && isa > Isa::kAvx2Vnni);
      EXPECT_EQ(isa_includes(isa, part), part <= isa && !beside) << isa_name(isa) << " " << isa_name(part);
      if (supports_isa(isa) && isa_includes(isa, part)) {
        EXPECT_TRUE(supports_isa(part)) << isa_name(part);
      }
    }
  }
  EXPECT_TRUE(supports_isa(Isa::kScalar));
  EXPECT_TRUE(supports_isa(best_supported_isa()));
}

TEST(Isa, TheBestVariantOfATierIsChosen) {
  const int scalar = 0, avx2 = 1, avx2_vnni = 2, avx512 = 3, avx512_vnni = 4, avx512_vbmi = 5, amx = 6, neon = 7,
            neon_dotprod = 8, neon_i8mm = 9;
  const int* best = choose_variant<const int>(
      {&scalar, &avx2, &avx2_vnni, &avx512, &avx512_vnni, &avx512_vbmi, &amx, &neon, &neon_dotprod, &neon_i8mm});
  EXPECT_EQ(*best, static_cast<int>(active_isa()));
  EXPECT_EQ(choose_variant<const int>({.scalar = &scalar}), &scalar);
  const int* coarse = choose_variant(&scalar, &avx2, &avx512, &neon);
  const Isa isa = active_isa();
  EXPECT_EQ(*coarse, isa >= Isa::kNeon ? 7 : isa >= Isa::kAvx512 ? 3 : isa >= Isa::kAvx2 ? 1 : 0);
}

using IsaDeathTest = testing::Test;

TEST(IsaDeathTest, EveryTierIsForcedOrSaysWhatIsLacking) {
  GTEST_FLAG_SET(death_test_style, "fast");
  for (const Isa isa : all_isas())
    EXPECT_EXIT(std::_Exit(exit_code_with(std::string(isa_name(isa)), isa)),
                testing::ExitedWithCode(supports_isa(isa) ? 10 : 14), "")
        << isa_name(isa);
}

TEST(IsaDeathTest, PlainAvx512IsTheBestOfItsTiers) {
  GTEST_FLAG_SET(death_test_style, "fast");
  EXPECT_EXIT(std::_Exit(exit_code_with("avx512", best_supported_isa())),
              testing::ExitedWithCode(supports_isa(Isa::kAvx512) ? 10 : 14), "");
}

TEST(IsaDeathTest, AnUnknownNameIsRefusedByName) {
  GTEST_FLAG_SET(death_test_style, "fast");
  EXPECT_EXIT(std::_Exit(exit_code_with("sse9", Isa::kScalar)), testing::ExitedWithCode(12), "");
}

TEST(IsaDeathTest, AnEmptyValueMeansTheBest) {
  GTEST_FLAG_SET(death_test_style, "fast");
  EXPECT_EXIT(std::_Exit(exit_code_with("", best_supported_isa())), testing::ExitedWithCode(10), "");
}

}  // namespace
}  // namespace nibble
