#include "quant/store/quantization_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "core/text/json.h"
#include "core/text/json_fields.h"
#include "core/text/strict_json.h"
#include "model/checkpoint/narrow_config.h"

namespace nibble::quant {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kMethod = model::kOwnQuantMethod;
constexpr std::size_t kMaxTensors = 1 << 20;  // more than a config.json has room for

std::vector<std::string_view> coded_formats() {
  std::vector<std::string_view> names;
  for (const StorageFormat* format : storage_formats())
    if (format->coding) names.push_back(format->name);
  return names;
}

// The values of an enum by the names that its own function gives them.
template <class E>
E named(const std::string& text, std::span<const E> values, std::string_view (*name)(E), const std::string& where,
        std::string_view key) {
  const auto found = std::find_if(values.begin(), values.end(), [&](E value) { return name(value) == text; });
  std::vector<std::string_view> names;
  std::transform(values.begin(), values.end(), std::back_inserter(names), name);
  NIBBLE_REQUIRE(found != values.end(), FormatError, "{}: {}: expected {}, got \"{}\"", where, key,
                 fmt::join(names, ", "), text);
  return *found;
}

std::size_t extent(const Json& value, const std::string& where) {
  constexpr std::size_t kMost = std::size_t{1} << 40;
  NIBBLE_REQUIRE(value.is_number_unsigned() && value.get<std::size_t>() >= 1 && value.get<std::size_t>() <= kMost,
                 FormatError, "{}: shape: expected whole numbers from 1 to {}, got {}", where, kMost, value.dump());
  return value.get<std::size_t>();
}

bool holds_super_blocks(const TensorSpec& spec) {
  return spec.coding != Coding::kPalette && spec.scale_type == ScaleType::kFloat16 && spec.group_size != 0 &&
         spec.super_block > spec.group_size && spec.super_block % spec.group_size == 0;
}

StoredTensor parse_stored_tensor(const Json& json, const std::string& where) {
  constexpr std::size_t kMostGroup = std::size_t{1} << 40;
  const JsonFields fields(json, where);
  const std::string& format = fields.text("format");
  const StorageFormat* known = find_storage_format(format);
  NIBBLE_REQUIRE(known != nullptr && known->coding, FormatError, "{}: format: expected {}, got \"{}\"", where,
                 fmt::join(coded_formats(), ", "), format);
  const Json& shape = fields.at("shape", "[out, in]");
  NIBBLE_REQUIRE(shape.is_array() && shape.size() == 2, FormatError, "{}: shape: expected [out, in], got {}", where,
                 shape.dump());
  StoredTensor stored;
  stored.format = known->format;
  stored.spec.coding = *known->coding;
  stored.spec.rows = extent(shape[0], where);
  stored.spec.cols = extent(shape[1], where);
  stored.spec.bits = static_cast<unsigned>(fields.integer("bits", 1, 8));
  stored.spec.group_size = fields.integer("group_size", 0, kMostGroup);
  stored.spec.cluster_dim = fields.integer_or("cluster_dim", 1, 1, 4);
  stored.spec.window_bits = static_cast<unsigned>(fields.integer_or("window_bits", 0, 0, kMostWindowBits));
  if (stored.spec.coding == Coding::kBlockPalette) {
    stored.spec.block_palette =
        named<BlockPalette>(fields.text("palette"), kBlockPalettes, block_palette_name, where, "palette");
    stored.spec.scale_type =
        named<ScaleType>(fields.text("block_scale"), kScaleTypes, scale_type_name, where, "block_scale");
  }
  stored.spec.super_block = fields.integer_or("super_block", 0, 0, kMostGroup);
  NIBBLE_REQUIRE(stored.spec.super_block == 0 || holds_super_blocks(stored.spec), FormatError,
                 "{}: super_block: expected a multiple of group_size above it, and blocks with float16 scales, got {} "
                 "with group_size {}",
                 where, stored.spec.super_block, stored.spec.group_size);
  fields.refuse_unread();
  return stored;
}

std::map<std::string, DType> parse_widened(const Json& json, const std::string& where) {
  NIBBLE_REQUIRE(json.is_object() && json.size() <= kMaxTensors, FormatError,
                 "{}: widened: expected an object of at most {} tensors", where, kMaxTensors);
  std::map<std::string, DType> widened;
  for (const auto& [name, value] : json.items()) {
    NIBBLE_REQUIRE(value == "F16" || value == "BF16", FormatError, "{}: widened: '{}': expected F16 or BF16, got {}",
                   where, name, value.dump());
    widened.emplace(name, value == "F16" ? DType::kF16 : DType::kBF16);
  }
  return widened;
}

std::set<std::string> parse_kept_biases(const Json& json, const std::string& where) {
  const bool fits = json.is_array() && json.size() <= kMaxTensors &&
                    std::all_of(json.begin(), json.end(), [](const Json& name) { return name.is_string(); });
  NIBBLE_REQUIRE(fits, FormatError, "{}: kept_biases: expected a list of at most {} names", where, kMaxTensors);
  return json.get<std::set<std::string>>();
}

OrderedJson stored_tensor_json(const StoredTensor& stored) {
  OrderedJson json{{"format", storage_format(stored.format).name},
                   {"shape", {stored.spec.rows, stored.spec.cols}},
                   {"bits", stored.spec.bits},
                   {"group_size", stored.spec.group_size}};
  if (stored.spec.cluster_dim != 1) json["cluster_dim"] = stored.spec.cluster_dim;
  if (stored.spec.windowed()) json["window_bits"] = stored.spec.window_bits;
  if (stored.spec.coding == Coding::kBlockPalette) {
    json["palette"] = block_palette_name(stored.spec.block_palette);
    json["block_scale"] = scale_type_name(stored.spec.scale_type);
  }
  if (stored.spec.super_block != 0) json["super_block"] = stored.spec.super_block;
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
           .cluster_dim = settings.cluster_dim,
           .window_bits = settings.has_palette() ? settings.window_bits : 0,
           .block_palette = settings.palette,
           .scale_type = settings.block_scale,
           .super_block = settings.super_block}};
}

std::optional<QuantizationConfig> parse_quantization_config(std::string_view config_text, std::string_view what) {
  const Json config = parse_strict_json(config_text, what);
  NIBBLE_REQUIRE(config.is_object(), FormatError, "{}: expected a JSON object, got {}", what, config.type_name());
  if (!config.contains("quantization_config") || config["quantization_config"].is_null()) return std::nullopt;
  if (model::parse_narrow_config(config_text, what)) return std::nullopt;
  const JsonFields fields(config["quantization_config"], fmt::format("{}: quantization_config", what));
  const std::string& where = fields.what();
  (void)fields.at("quant_method", "a text");  // ours: parse_narrow_config() refuses what it does not know
  const Json& version = fields.at("version", "a number");
  NIBBLE_REQUIRE(version == kQuantizedFormatVersion, FormatError, "{}: version: this program reads version {}, got {}",
                 where, kQuantizedFormatVersion, version.dump());
  for (const char* key :
       {"bits_per_weight", "model_bits_per_weight", "recipe", "tensors", "widened", "kept_biases", "fingerprints"})
    fields.mark(key);
  fields.refuse_unread();
  QuantizationConfig result;
  const Json& tensors = fields.at("tensors", "an object");
  NIBBLE_REQUIRE(tensors.is_object() && tensors.size() <= kMaxTensors, FormatError,
                 "{}: tensors: expected an object of at most {} tensors", where, kMaxTensors);
  for (const auto& [name, stored] : tensors.items())
    result.tensors.emplace(name, parse_stored_tensor(stored, fmt::format("{}: tensors: '{}'", where, name)));
  if (const Json* widened = fields.find("widened")) result.widened = parse_widened(*widened, where);
  if (const Json* kept = fields.find("kept_biases")) result.kept_biases = parse_kept_biases(*kept, where);
  result.recipe = fields.at("recipe", "the recipe").dump();
  result.checkpoint_fingerprint = fields.object("fingerprints").text("checkpoint");
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
  if (!quantization.kept_biases.empty()) config["quantization_config"]["kept_biases"] = quantization.kept_biases;
  for (const auto& [name, dtype] : quantization.widened)
    config["quantization_config"]["widened"][name] = dtype_name(dtype);
  return config.dump(2) + "\n";
}

std::string as_float_config(std::string_view config_text, DType dtype, const std::map<std::string, bool>& flags) {
  OrderedJson config = OrderedJson::parse(config_text);
  config.erase("quantization_config");
  const char* name = dtype == DType::kF32 ? "float32" : dtype == DType::kBF16 ? "bfloat16" : "float16";
  config["torch_dtype"] = name;
  if (config.contains("dtype")) config["dtype"] = name;
  for (const auto& [key, value] : flags) config[key] = value;
  return config.dump(2) + "\n";
}

}  // namespace nibble::quant
