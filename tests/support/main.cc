#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "core/isa.h"

// main() of every test: asked for an instruction set that this processor lacks, the run is skipped (77), not passed.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* forced = std::getenv("NIBBLE_FORCE_ISA");
  for (const auto isa : {nibble::Isa::kAvx2, nibble::Isa::kAvx512}) {
    if (forced != nullptr && nibble::isa_name(isa) == forced && isa > nibble::best_supported_isa()) {
      std::printf("[  SKIPPED ] this processor lacks %s\n", forced);
      return 77;
    }
  }
  return RUN_ALL_TESTS();
}
