#include "quant/store/quantization_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/strict_json.h"
#include "core/suggest.h"

namespace nibble::quant {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kMethod = "nibble";
constexpr std::size_t kMaxTensors = 65536;

const Json& member(const Json& object, const char* key, std::string_view where) {
  NIBBLE_REQUIRE(object.contains(key), FormatError, "{}: '{}' is missing", where, key);
  return object[key];
}

std::size_t integer(const Json& value, std::size_t least, std::size_t most, std::string_view where) {
  NIBBLE_REQUIRE(value.is_number_unsigned() && value.get<std::size_t>() >= least && value.get<std::size_t>() <= most,
                 FormatError, "{}: expected a whole number from {} to {}, got {}", where, least, most, value.dump());
  return value.get<std::size_t>();
}

void refuse_unknown_keys(const Json& object, std::span<const std::string_view> known, std::string_view where) {
  for (const auto& [key, value] : object.items())
    NIBBLE_REQUIRE(std::find(known.begin(), known.end(), key) != known.end(), FormatError, "{}: unknown key '{}'{}",
                   where, key, did_you_mean(key, known));
}

std::vector<std::string_view> coded_formats() {
  std::vector<std::string_view> names;
  for (const StorageFormat* format : storage_formats())
    if (format->coding) names.push_back(format->name);
  return names;
}

StoredTensor parse_stored_tensor(const Json& json, const std::string& where) {
  constexpr std::size_t kMaxExtent = std::size_t{1} << 40;
  NIBBLE_REQUIRE(json.is_object(), FormatError, "{}: expected an object, got {}", where, json.type_name());
  refuse_unknown_keys(json, std::array<std::string_view, 5>{"format", "shape", "bits", "group_size", "cluster_dim"},
                      where);
  const Json& format = member(json, "format", where);
  const StorageFormat* known = format.is_string() ? find_storage_format(format.get<std::string>()) : nullptr;
  NIBBLE_REQUIRE(known != nullptr && known->coding, FormatError, "{}: format: expected {}, got {}", where,
                 fmt::join(coded_formats(), ", "), format.dump());
  const Json& shape = member(json, "shape", where);
  NIBBLE_REQUIRE(shape.is_array() && shape.size() == 2, FormatError, "{}: shape: expected [out, in], got {}", where,
                 shape.dump());
  StoredTensor stored;
  stored.format = known->format;
  stored.spec.coding = *known->coding;
  stored.spec.rows = integer(shape[0], 1, kMaxExtent, where + ": shape");
  stored.spec.cols = integer(shape[1], 1, kMaxExtent, where + ": shape");
  stored.spec.bits = static_cast<unsigned>(integer(member(json, "bits", where), 1, 8, where + ": bits"));
  stored.spec.group_size = integer(member(json, "group_size", where), 0, kMaxExtent, where + ": group_size");
  stored.spec.cluster_dim = integer(json.value("cluster_dim", Json(1u)), 1, 4, where + ": cluster_dim");
  return stored;
}

OrderedJson stored_tensor_json(const StoredTensor& stored) {
  OrderedJson json{{"format", storage_format(stored.format).name},
                   {"shape", {stored.spec.rows, stored.spec.cols}},
                   {"bits", stored.spec.bits},
                   {"group_size", stored.spec.group_size}};
  if (stored.spec.cluster_dim != 1) json["cluster_dim"] = stored.spec.cluster_dim;
  return json;
}

}  // namespace

std::string storage_text(const StoredTensor& stored) { return storage_format(stored.format).describe(stored.spec); }

StoredTensor stored_tensor(const TensorSettings& settings, std::size_t rows, std::size_t cols) {
  return {settings.format,
          {.coding = settings.stored_as().coding.value(),
           .rows = rows,
           .cols = cols,
           .bits = settings.code_bits(),
           .group_size = settings.effective_group_size(),
           .cluster_dim = settings.cluster_dim}};
}

std::optional<QuantizationConfig> parse_quantization_config(std::string_view config_text, std::string_view what) {
  const Json config = parse_strict_json(config_text, what);
  NIBBLE_REQUIRE(config.is_object(), FormatError, "{}: expected a JSON object, got {}", what, config.type_name());
  if (!config.contains("quantization_config")) return std::nullopt;
  const std::string where = fmt::format("{}: quantization_config", what);
  const Json& json = config["quantization_config"];
  NIBBLE_REQUIRE(json.is_object(), FormatError, "{}: expected an object, got {}", where, json.type_name());
  const Json& method = member(json, "quant_method", where);
  NIBBLE_REQUIRE(method == kMethod, FormatError,
                 "{}: quant_method: expected \"{}\", got {}; other formats cannot be read", where, kMethod,
                 method.dump());
  const Json& version = member(json, "version", where);
  NIBBLE_REQUIRE(version == kQuantizedFormatVersion, FormatError, "{}: version: this program reads version {}, got {}",
                 where, kQuantizedFormatVersion, version.dump());
  refuse_unknown_keys(json,
                      std::array<std::string_view, 7>{"quant_method", "version", "bits_per_weight",
                                                      "model_bits_per_weight", "fingerprints", "recipe", "tensors"},
                      where);
  QuantizationConfig result;
  const Json& tensors = member(json, "tensors", where);
  NIBBLE_REQUIRE(tensors.is_object() && tensors.size() <= kMaxTensors, FormatError,
                 "{}: tensors: expected an object of at most {} tensors", where, kMaxTensors);
  for (const auto& [name, stored] : tensors.items())
    result.tensors.emplace(name, parse_stored_tensor(stored, fmt::format("{}: tensors: '{}'", where, name)));
  result.recipe = member(json, "recipe", where).dump();
  const Json& fingerprints = member(json, "fingerprints", where);
  NIBBLE_REQUIRE(
      fingerprints.is_object() && fingerprints.contains("checkpoint") && fingerprints["checkpoint"].is_string(),
      FormatError, "{}: fingerprints: expected {{\"checkpoint\": \"…\"}}", where);
  result.checkpoint_fingerprint = fingerprints["checkpoint"].get<std::string>();
  return result;
}

std::string with_quantization_config(std::string_view config_text, const QuantizationConfig& quantization) {
  OrderedJson config = OrderedJson::parse(config_text);
  OrderedJson tensors = OrderedJson::object();
  for (const auto& [name, stored] : quantization.tensors) tensors[name] = stored_tensor_json(stored);
  OrderedJson fingerprints{{"checkpoint", quantization.checkpoint_fingerprint}};
  if (!quantization.calibration_fingerprints.empty())
    fingerprints["calibration"] = quantization.calibration_fingerprints;
  config["quantization_config"] = {{"quant_method", kMethod},
                                   {"version", kQuantizedFormatVersion},
                                   {"bits_per_weight", quantization.bits_per_weight},
                                   {"model_bits_per_weight", quantization.model_bits_per_weight},
                                   {"fingerprints", std::move(fingerprints)},
                                   {"recipe", OrderedJson::parse(quantization.recipe)},
                                   {"tensors", std::move(tensors)}};
  return config.dump(2) + "\n";
}

std::string as_float16_config(std::string_view config_text, model::Family family, bool attention_bias, bool mlp_bias) {
  OrderedJson config = OrderedJson::parse(config_text);
  config.erase("quantization_config");
  config["torch_dtype"] = "float16";
  if (family == model::Family::kLlama) config["attention_bias"] = attention_bias, config["mlp_bias"] = mlp_bias;
  return config.dump(2) + "\n";
}

}  // namespace nibble::quant
