#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace nibble::model {

/// Types of metadata values; the numbers are the format's.
enum class GgufType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

std::string_view gguf_type_name(GgufType type);  ///< "UINT32", "STRING", …
/// Bytes of a value of that type in the file; 0 for strings and arrays, whose size is their own.
std::size_t gguf_type_size(GgufType type);

class GgufValue;

/// Values of one type. Takes about as much memory as in the file: numbers stay packed, strings lie one after the other.
struct GgufArray {
  GgufType type = GgufType::kU8;
  std::size_t size = 0;
  std::string bytes;                ///< numbers: as in the file, little-endian; strings: all of them, without lengths
  std::vector<std::uint64_t> ends;  ///< strings: where each ends in `bytes`
  std::vector<GgufValue> items;     ///< arrays of arrays

  /// Element `i` of an array of strings. Throws InvalidArgument for another type or index.
  std::string_view text(std::size_t i) const;
  /// Element `i` of an array of whole numbers; empty where it is 2^63 or more. Throws InvalidArgument for other types.
  std::optional<std::int64_t> integer(std::size_t i) const;
  /// Element `i` of an array of numbers, as float (F64 is rounded). Throws InvalidArgument for other types.
  float number(std::size_t i) const;
  bool truth(std::size_t i) const;  ///< of an array of BOOL
  bool is_integral() const;         ///< UINT8 to INT64
};

/// One value of the metadata.
class GgufValue {
 public:
  using Number = std::variant<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t,
                              float, bool, std::string, GgufArray, std::uint64_t, std::int64_t, double>;
  /// The C++ type says which of the format's types it is: std::uint32_t{3} is UINT32.
  explicit GgufValue(Number value) : value_(std::move(value)) {}
  static GgufValue strings(std::span<const std::string> values);
  static GgufValue floats(std::span<const float> values);
  static GgufValue integers(std::span<const std::int32_t> values);   ///< INT32
  static GgufValue naturals(std::span<const std::uint32_t> values);  ///< UINT32

  GgufType type() const { return static_cast<GgufType>(value_.index()); }
  /// A whole number of any of the eight types, if it fits. Empty for anything else.
  std::optional<std::uint64_t> natural() const;
  std::optional<std::int64_t> integer() const;
  std::optional<double> number() const;  ///< whole or not
  std::optional<bool> truth() const;
  const std::string* text() const { return std::get_if<std::string>(&value_); }
  const GgufArray* array() const { return std::get_if<GgufArray>(&value_); }
  const Number& get() const { return value_; }
  /// For people: a number, a quoted string cut after 60 bytes, "[STRING; 32000]".
  std::string describe() const;
  /// Appends the value as it is in the file, without its type.
  void append_to(std::string& bytes) const;

 private:
  Number value_;
};

/// Keys and values in the order of the file; no key twice.
class GgufMetadata {
 public:
  using Item = std::pair<std::string, GgufValue>;

  /// Throws InvalidArgument for a key that is there.
  void add(std::string key, GgufValue value);
  const std::vector<Item>& items() const { return items_; }
  const GgufValue* find(std::string_view key) const;  ///< null if absent. Cost: logarithmic

  // A value of the kind asked for. Empty where the key is absent; FormatError naming `key` and what was found where the
  // value is of another kind or out of range. All widths of whole numbers serve: writers disagree on them.
  std::optional<std::uint64_t> natural(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> truth(std::string_view key) const;
  const std::string* text(std::string_view key) const;
  /// `of`: what the elements must be.
  const GgufArray* array(std::string_view key, GgufType of) const;
  const GgufArray* array_of_integers(std::string_view key) const;  ///< of any width
  /// One whole number for each of `count` layers: an array of that many, or one number for all of them.
  std::optional<std::vector<std::uint64_t>> per_layer(std::string_view key, std::size_t count) const;

  /// The same where absence is an error too: "the metadata have no key …".
  std::uint64_t need_natural(std::string_view key) const;
  double need_number(std::string_view key) const;
  const std::string& need_text(std::string_view key) const;

  /// What messages call these metadata: "metadata of 'model.gguf'".
  void set_name(std::string name) { name_ = std::move(name); }
  const std::string& name() const { return name_; }

 private:
  std::vector<Item> items_;
  std::map<std::string, std::size_t, std::less<>> index_;  ///< key -> item
  std::string name_ = "GGUF metadata";
};

}  // namespace nibble::model
