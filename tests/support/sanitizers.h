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

/// Whether it runs under ThreadSanitizer, which keeps notes about every byte that is touched.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

/// Then neither peaks nor limits of memory tell anything.
inline constexpr bool kSanitizer = kAddressSanitizer || kThreadSanitizer;

}  // namespace nibble::test
