#pragma once

#include <cstdlib>

namespace nibble::test {

/// True in a run with NIBBLE_FORCE_ISA beside one without (cmake/testing.cmake): what knows no tiers of instructions,
/// such as networks in double, need not run again.
inline bool beside_default_tier() { return std::getenv("NIBBLE_BESIDE_DEFAULT_ISA") != nullptr; }

}  // namespace nibble::test
