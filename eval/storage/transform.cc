#include "eval/storage/transform.h"

#include "core/error.h"
#include "eval/storage/bit_stream.h"

namespace nibble::eval {
namespace {

std::uint32_t mask_of(unsigned width) { return width == 32 ? ~0u : (1u << width) - 1u; }

// v as a two's complement number of `width` bits, folded; and back.
std::uint32_t zigzag(std::uint32_t v, unsigned width) {
  const std::uint32_t mask = mask_of(width), sign = v >> (width - 1) & 1u;
  return ((v << 1) ^ (0u - sign)) & mask;
}
std::uint32_t unzigzag(std::uint32_t v, unsigned width) { return ((v >> 1) ^ (0u - (v & 1u))) & mask_of(width); }

std::size_t laid_out_bytes(Layout layout, std::size_t count, unsigned width) {
  switch (layout) {
    case Layout::kPacked:
      return packed_bytes(count, width);
    case Layout::kBytePlanes:
      return count * ((width + 7) / 8);
    case Layout::kBitPlanes:
      break;
  }
  return (count + 7) / 8 * width;
}

}  // namespace

std::string_view step_name(ValueStep step) {
  constexpr std::string_view kNames[] = {"", "delta", "zigzag", "delta+zigzag"};
  return kNames[static_cast<std::size_t>(step)];
}

std::string_view layout_name(Layout layout) {
  constexpr std::string_view kNames[] = {"packed", "byte planes", "bit planes"};
  return kNames[static_cast<std::size_t>(layout)];
}

std::vector<std::uint32_t> apply_step(ValueStep step, const BitPatterns& patterns) {
  const unsigned width = patterns.width;
  const std::uint32_t mask = mask_of(width), middle = patterns.offset_binary ? 1u << (width - 1) : 0u;
  std::vector<std::uint32_t> values = patterns.values;
  std::uint32_t previous = 0;
  for (std::uint32_t& v : values) {
    const std::uint32_t current = v;
    if (step == ValueStep::kDelta || step == ValueStep::kDeltaZigzag) v = (current - previous) & mask;
    if (step == ValueStep::kZigzag) v = zigzag(current ^ middle, width);
    if (step == ValueStep::kDeltaZigzag) v = zigzag(v, width);
    previous = current;
  }
  return values;
}

void undo_step(ValueStep step, unsigned width, bool offset_binary, std::vector<std::uint32_t>& values) {
  const std::uint32_t mask = mask_of(width), middle = offset_binary ? 1u << (width - 1) : 0u;
  std::uint32_t previous = 0;
  for (std::uint32_t& v : values) {
    if (step == ValueStep::kZigzag) v = unzigzag(v, width) ^ middle;
    if (step == ValueStep::kDeltaZigzag) v = unzigzag(v, width);
    if (step == ValueStep::kDelta || step == ValueStep::kDeltaZigzag) v = (v + previous) & mask;
    previous = v;
  }
}

std::vector<std::byte> lay_out(Layout layout, std::span<const std::uint32_t> values, unsigned width) {
  if (layout == Layout::kPacked) {
    BitWriter writer;
    for (const std::uint32_t v : values) writer.put(v, width);
    return writer.finish();
  }
  std::vector<std::byte> bytes(laid_out_bytes(layout, values.size(), width));
  std::size_t begin = 0;
  if (layout == Layout::kBytePlanes) {
    for (unsigned shift = 0; shift < width; shift += 8, begin += values.size())
      for (std::size_t i = 0; i < values.size(); ++i) bytes[begin + i] = static_cast<std::byte>(values[i] >> shift);
  } else {
    for (unsigned bit = 0; bit < width; ++bit, begin += (values.size() + 7) / 8)
      for (std::size_t i = 0; i < values.size(); ++i)
        bytes[begin + i / 8] |= static_cast<std::byte>((values[i] >> bit & 1u) << (i % 8));
  }
  return bytes;
}

std::vector<std::uint32_t> pick_up(Layout layout, std::span<const std::byte> bytes, std::size_t count, unsigned width) {
  const std::size_t expected = laid_out_bytes(layout, count, width);
  NIBBLE_REQUIRE(bytes.size() == expected, FormatError, "{} values of {} bits as {}: expected {} bytes, got {}", count,
                 width, layout_name(layout), expected, bytes.size());
  std::vector<std::uint32_t> values(count);
  if (layout == Layout::kPacked) {
    BitReader reader(bytes);
    for (std::uint32_t& v : values) v = reader.take(width);
    return values;
  }
  std::size_t begin = 0;
  if (layout == Layout::kBytePlanes) {
    for (unsigned shift = 0; shift < width; shift += 8, begin += count)
      for (std::size_t i = 0; i < count; ++i) values[i] |= std::to_integer<std::uint32_t>(bytes[begin + i]) << shift;
  } else {
    for (unsigned bit = 0; bit < width; ++bit, begin += (count + 7) / 8)
      for (std::size_t i = 0; i < count; ++i)
        values[i] |= (std::to_integer<std::uint32_t>(bytes[begin + i / 8]) >> (i % 8) & 1u) << bit;
  }
  return values;
}

}  // namespace nibble::eval
