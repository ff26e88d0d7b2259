#include "model/gguf/gguf_value.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/error.h"
#include "core/text/excerpt.h"
#include "model/checkpoint/safetensors_file.h"

namespace nibble::model {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers of GGUF files are copied as they are");

constexpr std::array<std::string_view, 13> kTypeNames{"UINT8",  "INT8",    "UINT16", "INT16",  "UINT32",
                                                      "INT32",  "FLOAT32", "BOOL",   "STRING", "ARRAY",
                                                      "UINT64", "INT64",   "FLOAT64"};
constexpr std::array<std::size_t, 13> kSizes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

template <class T>
T number_at(std::string_view bytes, std::size_t i) {
  T value{};
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}

template <class T>
void append_number(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
GgufValue packed(GgufType type, std::span<const T> values) {
  GgufArray array{.type = type, .size = values.size(), .bytes = {}, .ends = {}, .items = {}};
  array.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return GgufValue(GgufValue::Number(std::move(array)));
}

template <class T>
constexpr bool is_whole = std::is_integral_v<T> && !std::is_same_v<T, bool>;

void check_element(const GgufArray& array, std::size_t i, bool right_type, std::string_view kind) {
  NIBBLE_REQUIRE(right_type, InvalidArgument, "GGUF array: {} asked of an array of {}", kind,
                 gguf_type_name(array.type));
  NIBBLE_REQUIRE(i < array.size, InvalidArgument, "GGUF array: element {} of {}", i, array.size);
}

}  // namespace

std::string_view gguf_type_name(GgufType type) { return kTypeNames.at(static_cast<std::size_t>(type)); }
std::size_t gguf_type_size(GgufType type) { return kSizes.at(static_cast<std::size_t>(type)); }

bool GgufArray::is_integral() const {
  switch (type) {
    case GgufType::kF32:
    case GgufType::kF64:
    case GgufType::kBool:
    case GgufType::kString:
    case GgufType::kArray:
      return false;
    default:
      return true;
  }
}

std::string_view GgufArray::text(std::size_t i) const {
  check_element(*this, i, type == GgufType::kString, "text");
  const std::uint64_t begin = i == 0 ? 0 : ends[i - 1];
  return std::string_view(bytes).substr(begin, ends[i] - begin);
}

std::optional<std::int64_t> GgufArray::integer(std::size_t i) const {
  check_element(*this, i, is_integral(), "whole numbers");
  switch (type) {
    case GgufType::kU8:
      return number_at<std::uint8_t>(bytes, i);
    case GgufType::kI8:
      return number_at<std::int8_t>(bytes, i);
    case GgufType::kU16:
      return number_at<std::uint16_t>(bytes, i);
    case GgufType::kI16:
      return number_at<std::int16_t>(bytes, i);
    case GgufType::kU32:
      return number_at<std::uint32_t>(bytes, i);
    case GgufType::kI32:
      return number_at<std::int32_t>(bytes, i);
    case GgufType::kI64:
      return number_at<std::int64_t>(bytes, i);
    default: {
      const auto value = number_at<std::uint64_t>(bytes, i);
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
  }
}

float GgufArray::number(std::size_t i) const {
  check_element(*this, i, type == GgufType::kF32 || type == GgufType::kF64, "numbers");
  return type == GgufType::kF32 ? number_at<float>(bytes, i) : static_cast<float>(number_at<double>(bytes, i));
}

bool GgufArray::truth(std::size_t i) const {
  check_element(*this, i, type == GgufType::kBool, "BOOL");
  return bytes[i] != 0;
}

GgufValue GgufValue::strings(std::span<const std::string> values) {
  GgufArray array{.type = GgufType::kString, .size = values.size(), .bytes = {}, .ends = {}, .items = {}};
  for (const std::string& value : values) {
    array.bytes += value;
    array.ends.push_back(array.bytes.size());
  }
  return GgufValue(Number(std::move(array)));
}

GgufValue GgufValue::floats(std::span<const float> values) { return packed(GgufType::kF32, values); }
GgufValue GgufValue::integers(std::span<const std::int32_t> values) { return packed(GgufType::kI32, values); }
GgufValue GgufValue::naturals(std::span<const std::uint32_t> values) { return packed(GgufType::kU32, values); }

std::optional<std::uint64_t> GgufValue::natural() const {
  return std::visit(
      [](const auto& value) -> std::optional<std::uint64_t> {
        using T = std::decay_t<decltype(value)>;
        if constexpr (is_whole<T>) {
          if (value >= T{0}) return static_cast<std::uint64_t>(value);
        }
        return std::nullopt;
      },
      value_);
}

std::optional<std::int64_t> GgufValue::integer() const {
  return std::visit(
      [](const auto& value) -> std::optional<std::int64_t> {
        using T = std::decay_t<decltype(value)>;
        if constexpr (is_whole<T>) {
          if (std::in_range<std::int64_t>(value)) return static_cast<std::int64_t>(value);
        }
        return std::nullopt;
      },
      value_);
}

std::optional<double> GgufValue::number() const {
  return std::visit(
      [](const auto& value) -> std::optional<double> {
        using T = std::decay_t<decltype(value)>;
        if constexpr (is_whole<T> || std::is_floating_point_v<T>) return static_cast<double>(value);
        return std::nullopt;
      },
      value_);
}

std::optional<bool> GgufValue::truth() const {
  const bool* const value = std::get_if<bool>(&value_);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::string GgufValue::describe() const {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return in_quotes(value, 60);
        } else if constexpr (std::is_same_v<T, GgufArray>) {
          return fmt::format("[{}; {}]", gguf_type_name(value.type), value.size);
        } else {
          return fmt::format("{}", value);
        }
      },
      value_);
}

void GgufValue::append_to(std::string& bytes) const {
  std::visit(
      [&bytes](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>) {
          append_number<std::uint64_t>(bytes, value.size());
          bytes += value;
        } else if constexpr (std::is_same_v<T, GgufArray>) {
          append_number(bytes, static_cast<std::uint32_t>(value.type));
          append_number<std::uint64_t>(bytes, value.size);
          if (value.type == GgufType::kString) {
            for (std::size_t i = 0; i < value.size; ++i) {
              const std::string_view text = value.text(i);
              append_number<std::uint64_t>(bytes, text.size());
              bytes += text;
            }
          } else if (value.type == GgufType::kArray) {
            for (const GgufValue& item : value.items) item.append_to(bytes);
          } else {
            bytes += value.bytes;
          }
        } else {
          append_number(bytes, value);
        }
      },
      value_);
}

void GgufMetadata::add(std::string key, GgufValue value) {
  NIBBLE_REQUIRE(index_.emplace(key, items_.size()).second, InvalidArgument, "{}: the key '{}' is there already", name_,
                 excerpt(key));
  items_.emplace_back(std::move(key), std::move(value));
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &items_[found->second].second;
}

namespace {

[[noreturn]] void wrong_kind(const GgufMetadata& metadata, std::string_view key, const GgufValue& value,
                             std::string_view expected) {
  throw FormatError(fmt::format("{}: '{}' should be {}, but is {} {}", metadata.name(), key, expected,
                                gguf_type_name(value.type()), value.describe()));
}

[[noreturn]] void absent(const GgufMetadata& metadata, std::string_view key, std::string_view expected) {
  throw FormatError(fmt::format("{}: expected a key '{}' with {}, there is none", metadata.name(), key, expected));
}

constexpr std::string_view kNatural = "a whole number from 0", kNumber = "a number", kText = "a string";

}  // namespace

std::optional<std::uint64_t> GgufMetadata::natural(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto result = value->natural();
  if (!result) wrong_kind(*this, key, *value, kNatural);
  return result;
}

std::optional<std::int64_t> GgufMetadata::integer(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto result = value->integer();
  if (!result) wrong_kind(*this, key, *value, "a whole number below 2^63");
  return result;
}

std::optional<double> GgufMetadata::number(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto result = value->number();
  if (!result) wrong_kind(*this, key, *value, kNumber);
  return result;
}

std::optional<bool> GgufMetadata::truth(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto result = value->truth();
  if (!result) wrong_kind(*this, key, *value, "true or false");
  return result;
}

const std::string* GgufMetadata::text(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return nullptr;
  if (value->text() == nullptr) wrong_kind(*this, key, *value, kText);
  return value->text();
}

const GgufArray* GgufMetadata::array(std::string_view key, GgufType of) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return nullptr;
  const GgufArray* const array = value->array();
  if (array == nullptr || array->type != of)
    wrong_kind(*this, key, *value, fmt::format("an array of {}", gguf_type_name(of)));
  return array;
}

const GgufArray* GgufMetadata::array_of_integers(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return nullptr;
  const GgufArray* const array = value->array();
  if (array == nullptr || !array->is_integral()) wrong_kind(*this, key, *value, "an array of whole numbers");
  return array;
}

std::optional<std::vector<std::uint64_t>> GgufMetadata::per_layer(std::string_view key, std::size_t count) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->array() == nullptr) return std::vector<std::uint64_t>(count, *natural(key));
  const GgufArray& array = *array_of_integers(key);
  NIBBLE_REQUIRE(array.size == count, FormatError, "{}: '{}' should have one number for each of {} layers, but has {}",
                 name_, key, count, array.size);
  std::vector<std::uint64_t> result;
  for (std::size_t i = 0; i < count; ++i) {
    const auto number = array.integer(i);
    if (!number || *number < 0) wrong_kind(*this, key, *value, "an array of whole numbers from 0");
    result.push_back(static_cast<std::uint64_t>(*number));
  }
  return result;
}

std::uint64_t GgufMetadata::need_natural(std::string_view key) const {
  const auto value = natural(key);
  if (!value) absent(*this, key, kNatural);
  return *value;
}

double GgufMetadata::need_number(std::string_view key) const {
  const auto value = number(key);
  if (!value) absent(*this, key, kNumber);
  return *value;
}

const std::string& GgufMetadata::need_text(std::string_view key) const {
  const std::string* const value = text(key);
  if (value == nullptr) absent(*this, key, kText);
  return *value;
}

}  // namespace nibble::model
