#include <bit>

#include "core/error.h"
#include "eval/storage/bit_stream.h"
#include "eval/storage/specialist_codecs.h"

namespace nibble::eval {
namespace {

// Where the non-zero bits of an XOR lie: `shift` zeros below, then `length` bits.
struct Window {
  unsigned shift = 0, length = 0;  // length 0: none yet

  bool holds(std::uint32_t bits) const {
    return length > 0 && (bits & ((std::uint32_t{1} << shift) - 1)) == 0 &&
           static_cast<unsigned>(std::bit_width(bits)) <= shift + length;
  }
};

unsigned field_bits(unsigned width) {
  NIBBLE_REQUIRE(width == 16 || width == 32, InvalidArgument, "gorilla: width {}, expected 16 or 32", width);
  return width == 16 ? 4 : 5;
}

}  // namespace

std::vector<std::byte> gorilla_encode(std::span<const std::uint32_t> values, unsigned width) {
  const unsigned field = field_bits(width);
  BitWriter writer;
  Window window;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i == 0) {
      writer.put(values[0], width);
      continue;
    }
    const std::uint32_t difference = values[i] ^ values[i - 1];
    writer.put(difference != 0, 1);
    if (difference == 0) continue;
    const bool same_window = window.holds(difference);
    writer.put(!same_window, 1);
    if (!same_window) {
      const auto top = static_cast<unsigned>(std::bit_width(difference));
      window.shift = static_cast<unsigned>(std::countr_zero(difference));
      window.length = top - window.shift;
      writer.put(width - top, field);
      writer.put(window.length - 1, field);
    }
    writer.put(difference >> window.shift, window.length);
  }
  return writer.finish();
}

std::vector<std::uint32_t> gorilla_decode(std::span<const std::byte> bytes, std::size_t count, unsigned width) {
  const unsigned field = field_bits(width);
  BitReader reader(bytes);
  std::vector<std::uint32_t> values(count);
  Window window;
  for (std::size_t i = 0; i < count; ++i) {
    if (i == 0) {
      values[0] = reader.take(width);
      continue;
    }
    values[i] = values[i - 1];
    if (reader.take(1) == 0) continue;
    if (reader.take(1) == 1) {
      const unsigned leading = reader.take(field);
      window.length = reader.take(field) + 1;
      NIBBLE_REQUIRE(leading + window.length <= width, FormatError, "gorilla: {} leading zeros and {} bits exceed {}",
                     leading, window.length, width);
      window.shift = width - leading - window.length;
    }
    values[i] ^= reader.take(window.length) << window.shift;
  }
  return values;
}

}  // namespace nibble::eval
