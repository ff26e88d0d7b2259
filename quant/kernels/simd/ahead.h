#pragma once

#include <cstddef>

// How kernels ask for memory before they need it.
namespace nibble::quant {

/// So far ahead. A core has about 2 KB on the way at its share of the memory's speed; the rest is room for kernels that
/// run in bursts. On an Emerald Rapids core that reads 17 GB/s plainly, 4-bit products reach 12 GB/s with no such
/// requests, 13, 14, 15.3, 15.6, 16.5 with 0.5, 1, 2, 4, 8 KB: the processor's own prefetcher stops at every 4 KB page,
/// and decoding leaves too few loads in flight to make up for that.
constexpr std::size_t kAheadBytes = 8192;

/// The lines of [begin, begin + bytes), read front to back once. V, the vector type of the caller, keeps this code
/// inside files of one instruction set.
template <class V>
class Ahead {
 public:
  /// Asks for what will be read first. With `distance` (in bytes), streams that are read more slowly than others.
  [[gnu::always_inline]] Ahead(const void* begin, std::size_t bytes, std::size_t distance = kAheadBytes)
      : distance_(distance), end_(static_cast<const char*>(begin) + bytes) {
    const char* first = static_cast<const char*>(begin);
    for (std::size_t i = 0; i < distance && i < bytes; i += kLine) fetch(first + i);
  }

  /// Call for every line or oftener, `at` within the stream.
  [[gnu::always_inline]] void operator()(const void* at) const {
    const char* from = static_cast<const char*>(at);
    if (static_cast<std::size_t>(end_ - from) > distance_) fetch(from + distance_);
  }

 private:
  static constexpr std::size_t kLine = 64;
  // Into the second-level cache: the first one is for activations.
  [[gnu::always_inline]] static void fetch(const char* line) {
#if defined(__x86_64__)
    asm volatile("prefetcht1 %0" : : "m"(*line));  // GCC 12 drops calls of functions whose only effect is the built-in
#else
    __builtin_prefetch(line, 0, 2);
#endif
  }

  std::size_t distance_;
  const char* end_;
};

}  // namespace nibble::quant
