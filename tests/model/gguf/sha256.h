#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace nibble::test {

/// SHA-256 (FIPS 180-4) as hexadecimal digits: what golden files name decoded tensors by.
inline std::string sha256(std::string_view data) {
  const auto fraction = [](auto root, std::uint32_t prime) {  // first 32 bits of the fraction of a root of a prime
    const long double value = root(static_cast<long double>(prime));
    return static_cast<std::uint32_t>((value - static_cast<long double>(static_cast<std::uint32_t>(value))) * 0x1p32L);
  };
  static const auto tables = [&] {
    std::array<std::uint32_t, 64> k{};
    std::array<std::uint32_t, 8> h{};
    std::size_t count = 0;
    for (std::uint32_t n = 2; count < k.size(); ++n) {
      bool prime = true;
      for (std::uint32_t d = 2; d * d <= n; ++d) prime = prime && n % d != 0;
      if (!prime) continue;
      if (count < h.size()) h[count] = fraction([](long double x) { return __builtin_sqrtl(x); }, n);
      k[count++] = fraction([](long double x) { return __builtin_cbrtl(x); }, n);
    }
    return std::pair(k, h);
  }();
  std::array<std::uint32_t, 8> h = tables.second;
  std::string tail(data.substr(data.size() / 64 * 64));
  tail += '\x80';
  while (tail.size() % 64 != 56) tail += '\0';
  for (int shift = 56; shift >= 0; shift -= 8) tail += static_cast<char>((data.size() * 8) >> shift);
  const auto block = [&](const char* bytes) {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 64; ++i) w[i / 4] = w[i / 4] << 8 | static_cast<unsigned char>(bytes[i]);
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    std::array<std::uint32_t, 8> v = h;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t t1 = v[7] + (std::rotr(v[4], 6) ^ std::rotr(v[4], 11) ^ std::rotr(v[4], 25)) +
                               ((v[4] & v[5]) ^ (~v[4] & v[6])) + tables.first[i] + w[i];
      const std::uint32_t t2 = (std::rotr(v[0], 2) ^ std::rotr(v[0], 13) ^ std::rotr(v[0], 22)) +
                               ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
      v = {t1 + t2, v[0], v[1], v[2], v[3] + t1, v[4], v[5], v[6]};
    }
    for (std::size_t i = 0; i < 8; ++i) h[i] += v[i];
  };
  for (std::size_t at = 0; at + 64 <= data.size(); at += 64) block(data.data() + at);
  for (std::size_t at = 0; at < tail.size(); at += 64) block(tail.data() + at);
  std::string hex;
  for (const std::uint32_t word : h) {
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", word);
    hex += digits;
  }
  return hex;
}

}  // namespace nibble::test
