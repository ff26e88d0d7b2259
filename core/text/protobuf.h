#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble {

/// One field of a message in Protocol Buffers' wire format. Its getters throw FormatError for a field of another type.
class ProtobufField {
 public:
  enum class Type : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  ProtobufField(std::uint64_t number, Type type, std::uint64_t value, std::string_view bytes, const std::string& where)
      : number_(number), type_(type), value_(value), bytes_(bytes), where_(where) {}

  std::uint64_t number() const { return number_; }
  std::string_view bytes() const;  // a text or a message inside
  bool boolean() const;
  std::int32_t integer() const;        // int32 or an enumeration
  std::uint64_t whole_number() const;  // uint64, or the two's complement of an int64
  float real() const;

 private:
  void require(Type type, const char* name) const;

  std::uint64_t number_;
  Type type_;
  std::uint64_t value_;
  std::string_view bytes_;
  const std::string& where_;
};

/// Calls on_field for each field of a message, in order. Throws FormatError naming `where` for bytes that are no
/// message.
void for_each_protobuf_field(std::string_view message, const std::string& where,
                             const std::function<void(const ProtobufField& field)>& on_field);

/// The numbers of a packed repeated field of varints (int32, int64, uint64, bool). Throws FormatError as above.
std::vector<std::uint64_t> packed_protobuf_numbers(std::string_view bytes, const std::string& where);

}  // namespace nibble
