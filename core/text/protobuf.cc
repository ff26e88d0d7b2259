#include "core/text/protobuf.h"

#include <bit>

#include "core/error.h"

namespace nibble {
namespace {

class ProtobufReader {
 public:
  ProtobufReader(std::string_view bytes, const std::string& where) : left_(bytes), where_(where) {}

  bool at_end() const { return left_.empty(); }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes(1).front());
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    throw FormatError(fmt::format("{}: a number has more than 10 bytes", where_));
  }

  std::uint64_t fixed(std::size_t size) {
    std::uint64_t value = 0;
    const std::string_view all = bytes(size);
    for (std::size_t i = 0; i < size; ++i) value |= std::uint64_t{static_cast<unsigned char>(all[i])} << (8 * i);
    return value;
  }

  std::string_view bytes(std::uint64_t size) {
    NIBBLE_REQUIRE(size <= left_.size(), FormatError, "{}: a field needs {} bytes, but {} are left", where_, size,
                   left_.size());
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }

 private:
  std::string_view left_;
  const std::string& where_;
};

}  // namespace

void ProtobufField::require(Type type, const char* name) const {
  NIBBLE_REQUIRE(type_ == type, FormatError, "{}: field {} must be {}, got wire type {}", where_, number_, name,
                 static_cast<int>(type_));
}

std::string_view ProtobufField::bytes() const {
  require(Type::kBytes, "a text or a message");
  return bytes_;
}

bool ProtobufField::boolean() const {
  require(Type::kVarint, "true or false");
  return value_ != 0;
}

std::int32_t ProtobufField::integer() const {
  require(Type::kVarint, "a whole number");
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(value_));
}

std::uint64_t ProtobufField::whole_number() const {
  require(Type::kVarint, "a whole number");
  return value_;
}

float ProtobufField::real() const {
  require(Type::kFixed32, "a number of 4 bytes");
  return std::bit_cast<float>(static_cast<std::uint32_t>(value_));
}

void for_each_protobuf_field(std::string_view message, const std::string& where,
                             const std::function<void(const ProtobufField& field)>& on_field) {
  using Type = ProtobufField::Type;
  ProtobufReader reader(message, where);
  while (!reader.at_end()) {
    const std::uint64_t key = reader.varint();
    const auto type = static_cast<Type>(key & 7u);
    std::uint64_t value = 0;
    std::string_view bytes;
    switch (type) {
      case Type::kVarint:
        value = reader.varint();
        break;
      case Type::kFixed64:
        value = reader.fixed(8);
        break;
      case Type::kBytes:
        bytes = reader.bytes(reader.varint());
        break;
      case Type::kFixed32:
        value = reader.fixed(4);
        break;
      default:
        throw FormatError(fmt::format("{}: field {} has the unknown wire type {}", where, key >> 3u, key & 7u));
    }
    on_field(ProtobufField(key >> 3u, type, value, bytes, where));
  }
}

std::vector<std::uint64_t> packed_protobuf_numbers(std::string_view bytes, const std::string& where) {
  ProtobufReader reader(bytes, where);
  std::vector<std::uint64_t> numbers;
  while (!reader.at_end()) numbers.push_back(reader.varint());
  return numbers;
}

}  // namespace nibble
