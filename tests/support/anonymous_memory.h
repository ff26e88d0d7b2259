#pragma once

#include <cstdint>

#if defined(__GLIBC__)  // as a header of the library says, so after one
#include <malloc.h>
#endif

#include "core/machine/memory.h"
#include "tests/support/sanitizers.h"

namespace nibble::test {

constexpr bool kAnonymousIsOurs = !kThreadSanitizer;

/// Anonymous memory of this process that is in use: without what was freed and is kept for later.
inline std::int64_t anonymous_bytes() {
#if defined(__GLIBC__)
  [[maybe_unused]] static const int fixed = mallopt(M_MMAP_THRESHOLD, 1 << 20);  // large ones are given back at once
  malloc_trim(0);
#endif
  return static_cast<std::int64_t>(memory_use().anonymous_bytes);
}

}  // namespace nibble::test

/// First line of a test that looks at it: skips where what runs it adds to it.
#define NIBBLE_NEEDS_OWN_ANONYMOUS_MEMORY() \
  if (!::nibble::test::kAnonymousIsOurs) GTEST_SKIP() << "anonymous memory is not the test's alone here"
