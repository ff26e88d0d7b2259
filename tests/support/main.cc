#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "core/machine/isa.h"
#include "tests/support/tiers.h"

// main() of every test: asked for an instruction set that this processor lacks, the run is skipped (77), not passed; so
// is one all of whose cases skip themselves, and one of this processor's best beside a run without NIBBLE_FORCE_ISA,
// which is the same.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* forced = std::getenv("NIBBLE_FORCE_ISA");
  for (const nibble::Isa isa : nibble::all_isas()) {
    if (forced != nullptr && nibble::isa_name(isa) == forced && !nibble::supports_isa(isa)) {
      std::printf("[  SKIPPED ] this processor lacks %s\n", forced);
      return 77;
    }
  }
  if (forced != nullptr && nibble::test::beside_default_tier() &&
      nibble::isa_name(nibble::best_supported_isa()) == forced) {
    std::printf("[  SKIPPED ] %s is what runs without NIBBLE_FORCE_ISA here\n", forced);
    return 77;
  }
  const int result = RUN_ALL_TESTS();
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  const bool nothing_ran = all.test_to_run_count() > 0 && all.skipped_test_count() == all.test_to_run_count();
  return result == 0 && nothing_ran ? 77 : result;
}
