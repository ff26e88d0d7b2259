#pragma once

namespace nibble::test {

/// Whether code runs under AddressSanitizer: a tenth as fast, memory that was freed is kept, address space is mapped.
/// Tests of whole models take smaller models or fewer cells there: the same code and other numbers of loops. The
/// release build has all of them.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

/// Under this or ThreadSanitizer, which keeps notes about all memory, neither peaks nor limits of memory tell anything.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitizer = true;
#else
inline constexpr bool kSanitizer = kAddressSanitizer;
#endif

}  // namespace nibble::test
