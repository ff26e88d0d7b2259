#include "datasets/utf8.h"

#include <cstdint>
#include <cstring>

namespace nibble::datasets {
namespace {

// What may follow a lead byte: `length` bytes in all, the second one in [low, high], the others in [80, BF].
struct Sequence {
  std::size_t length = 0;  // 0: not a lead byte
  unsigned low = 0x80, high = 0xBF;
};

Sequence sequence_of(unsigned lead) {
  if (lead < 0x80) return {1};
  if (lead < 0xC2) return {0};  // a continuation byte, or an overlong form of ASCII
  if (lead < 0xE0) return {2};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};  // below: overlong
  if (lead == 0xED) return {3, 0x80, 0x9F};  // above: surrogates
  if (lead < 0xF0) return {3};
  if (lead == 0xF0) return {4, 0x90, 0xBF};  // below: overlong
  if (lead < 0xF4) return {4};
  if (lead == 0xF4) return {4, 0x80, 0x8F};  // above: beyond U+10FFFF
  return {0};
}

}  // namespace

std::optional<std::size_t> first_invalid_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) -> unsigned { return static_cast<unsigned char>(text[i]); };
  std::size_t i = 0;
  while (i < text.size()) {
    std::uint64_t eight = 0;
    if (i + sizeof eight <= text.size()) {
      std::memcpy(&eight, text.data() + i, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        i += sizeof eight;
        continue;
      }
    }
    const Sequence sequence = sequence_of(byte(i));
    if (sequence.length == 0 || sequence.length > text.size() - i) return i;
    for (std::size_t k = 1; k < sequence.length; ++k) {
      const unsigned low = k == 1 ? sequence.low : 0x80, high = k == 1 ? sequence.high : 0xBF;
      if (byte(i + k) < low || byte(i + k) > high) return i;
    }
    i += sequence.length;
  }
  return std::nullopt;
}

}  // namespace nibble::datasets
