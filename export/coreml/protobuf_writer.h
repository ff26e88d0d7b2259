#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace nibble::coreml {

/// A message in Protocol Buffers' wire format, put together field by field. Everything named here is written, defaults
/// too, because a member of a oneof must be there even where it is empty; a plain field with its default value is left
/// out by number().
class ProtobufWriter {
 public:
  const std::string& bytes() const { return bytes_; }

  void varint(unsigned field, std::uint64_t value) {
    key(field, 0);
    raw_varint(value);
  }
  /// A plain (proto3) number: nothing where it is 0. Negative numbers are their 64-bit two's complement.
  void number(unsigned field, std::int64_t value) {
    if (value != 0) varint(field, static_cast<std::uint64_t>(value));
  }
  /// A text, bytes, a message made elsewhere, or a packed field.
  void text(unsigned field, std::string_view value) {
    key(field, 2);
    raw_varint(value.size());
    bytes_.append(value);
  }
  /// A message inside; `fill` writes its fields.
  template <class Fill>
  void message(unsigned field, Fill&& fill) {
    ProtobufWriter inside;
    std::forward<Fill>(fill)(inside);
    text(field, inside.bytes_);
  }
  /// A packed field of varints; zeros inside stay, and nothing is written where there are no values.
  template <class Values>
  void packed(unsigned field, const Values& values) {
    ProtobufWriter inside;
    for (const auto value : values) inside.raw_varint(static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
    if (!inside.bytes_.empty()) text(field, inside.bytes_);
  }
  template <class Floats>
  void packed_floats(unsigned field, const Floats& values) {
    std::string inside;
    for (const float value : values) {
      const auto bits = std::bit_cast<std::uint32_t>(value);
      for (unsigned shift = 0; shift < 32; shift += 8) inside.push_back(static_cast<char>(bits >> shift & 0xFFu));
    }
    if (!inside.empty()) text(field, inside);
  }

 private:
  void key(unsigned field, unsigned type) { raw_varint(std::uint64_t{field} << 3u | type); }
  void raw_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7u) bytes_.push_back(static_cast<char>(0x80u | (value & 0x7Fu)));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

}  // namespace nibble::coreml
