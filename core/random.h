#pragma once

#include <cstdint>

namespace nibble {

/// A small seeded generator (SplitMix64; Steele, Lea, Flood 2014) whose numbers are the same with every compiler and
/// standard library. For sampling, not for cryptography. Thread-compatible.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, bound), without modulo bias. Requires bound > 0.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t reject = (0 - bound) % bound;  // 2^64 mod bound
    while (true) {
      const std::uint64_t value = next();
      if (value >= reject) return value % bound;
    }
  }
  /// Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// Standard normal (sum of uniforms is not enough for tails: Box-Muller).
  double normal();

 private:
  std::uint64_t state_;
};

}  // namespace nibble
