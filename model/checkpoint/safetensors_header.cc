#include "model/checkpoint/safetensors_header.h"

#include "core/error.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"
#include "core/text/strict_json.h"
#include "model/checkpoint/tensor_text.h"

namespace nibble::model {
namespace {

using Json = nlohmann::json;

/// Follows the header's tokens: { "__metadata__": { key: string … }, name: { "dtype": string, "shape": [n …],
/// "data_offsets": [begin, end] } … }.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(std::string_view file) : file_(file) {}
  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kNames;
    } else if (place_ == Place::kNames && key_ == kMetadataKey) {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kNames) {
      place_ = Place::kTensor;
      dtype_.reset();
      shape_.reset();
      offsets_.reset();
    } else {
      wrong("an object");
    }
    return true;
  }

  bool key(std::string& key) override {
    switch (place_) {
      case Place::kNames:
        key_ = key;
        if (key == kMetadataKey) {
          if (metadata_seen_) fail("duplicate key '__metadata__'");
          metadata_seen_ = true;
        } else {
          check_tensor_name(key, file_);
          if (header_.tensors.contains(key)) fail(fmt::format("tensor '{}' is listed twice", key));
        }
        break;
      case Place::kMetadata:
        if (header_.metadata.contains(key)) fail(fmt::format("duplicate key '{}' in __metadata__", excerpt(key)));
        metadata_key_ = key;
        break;
      default: {
        const bool again = (key == "dtype" && dtype_) || (key == "shape" && shape_) || (key == kOffsetsKey && offsets_);
        if (again) fail(fmt::format("{}: duplicate key '{}'", where(), key));
        if (key != "dtype" && key != "shape" && key != kOffsetsKey)
          fail(fmt::format("{}: unknown key '{}'; expected dtype, shape and data_offsets", where(), excerpt(key)));
        field_ = key;
      }
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      if (!dtype_) fail(fmt::format("{} has no dtype", where()));
      if (!shape_) fail(fmt::format("{} has no shape", where()));
      if (!offsets_) fail(fmt::format("{} has no data_offsets", where()));
      header_.tensors.emplace(key_, HeaderEntry{*dtype_, std::move(*shape_), (*offsets_)[0], (*offsets_)[1]});
    }
    place_ = place_ == Place::kNames ? Place::kEnd : Place::kNames;
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::kMetadata) {
      header_.metadata.emplace(metadata_key_, value);
    } else if (place_ == Place::kTensor && field_ == "dtype") {
      dtype_ = dtype_from_name(value);
      if (!dtype_) fail(fmt::format("{} has dtype '{}', {}", where(), excerpt(value), kDtypeHint));
    } else {
      wrong("a string");
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::kTensor && field_ == "shape") {
      place_ = Place::kShape;
      shape_.emplace();
    } else if (place_ == Place::kTensor && field_ == kOffsetsKey) {
      place_ = Place::kOffsets;
      offsets_.emplace();
    } else {
      wrong("an array");
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsets && offsets_->size() != 2)
      fail(fmt::format("{}: data_offsets needs 2 numbers, has {}", where(), offsets_->size()));
    place_ = Place::kTensor;
    return true;
  }

  bool number_unsigned(Json::number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      if (shape_->size() == kMaxRank) fail(fmt::format("{} has more than {} dimensions", where(), kMaxRank));
      shape_->push_back(value);
    } else if (place_ == Place::kOffsets) {
      if (offsets_->size() == 2) fail(fmt::format("{}: data_offsets needs 2 numbers, has more", where()));
      offsets_->push_back(value);
    } else {
      wrong("a number");
    }
    return true;
  }

  bool number_integer(Json::number_integer_t value) override {
    wrong(fmt::format("{}, which is not a number from 0 to 2^64 - 1", value));
  }
  bool number_float(Json::number_float_t, const std::string& text) override {
    wrong(fmt::format("{}, which is not a whole number from 0 to 2^64 - 1", excerpt(text)));
  }
  bool null() override { wrong("null"); }
  bool boolean(bool) override { wrong("true or false"); }
  bool binary(Json::binary_t&) override { wrong("binary data"); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    fail(fmt::format("the header is not valid JSON: {}", json_error_text(error.what())));
  }

 private:
  enum class Place { kStart, kNames, kMetadata, kTensor, kShape, kOffsets, kEnd };
  static constexpr std::string_view kMetadataKey = "__metadata__", kOffsetsKey = "data_offsets";

  static constexpr std::string_view kDtypeHint =
      "which is not supported; known are F64, F32, F16, BF16, I64 to I8, U64 to U8 and BOOL";

  std::string where() const { return fmt::format("tensor '{}'", key_); }

  [[noreturn]] void fail(const std::string& message) const {
    throw FormatError(fmt::format("safetensors: {} (file {})", message, file_));
  }

  [[noreturn]] void wrong(std::string_view found) const {
    switch (place_) {
      case Place::kMetadata:
        fail(fmt::format("__metadata__ may only hold strings, but '{}' is {}", excerpt(metadata_key_), found));
      case Place::kTensor:
        fail(fmt::format("{}: {} is {}; expected {}", where(), field_, found,
                         field_ == "dtype" ? "a string" : "an array of numbers"));
      case Place::kShape:
        fail(fmt::format("{}: shape contains {}", where(), found));
      case Place::kOffsets:
        fail(fmt::format("{}: data_offsets contains {}", where(), found));
      case Place::kNames:
        fail(fmt::format("'{}' should be an object, but is {}", key_, found));
      default:
        fail(fmt::format("the header should be a JSON object, but is {}", found));
    }
  }

  std::string file_;
  SafetensorsHeader header_;
  Place place_ = Place::kStart;
  bool metadata_seen_ = false;
  std::string key_, metadata_key_, field_;
  std::optional<DType> dtype_;
  std::optional<std::vector<std::uint64_t>> shape_, offsets_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, std::string_view file) {
  NIBBLE_REQUIRE(json.find('\0') == std::string_view::npos, FormatError,  // the parser would take it for the end
                 "safetensors: the header is not valid JSON: it contains a zero byte (file {})", file);
  HeaderReader reader(file);
  Json::sax_parse(json, &reader);
  return reader.take();
}

}  // namespace nibble::model
