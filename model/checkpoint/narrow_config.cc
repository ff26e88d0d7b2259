#include "model/checkpoint/narrow_config.h"

#include "core/error.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"
#include "core/text/json_fields.h"
#include "core/text/strict_json.h"

namespace nibble::model {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kHint = "; quantize the float checkpoint that it was made from";

std::string shown(const Json& value) {
  return excerpt(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::array<std::size_t, 2> block_of(const Json& value, const std::string& where, std::string_view key) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  const auto is_extent = [](const Json& extent) {
    return extent.is_number_unsigned() && extent.get<std::uint64_t>() >= 1 && extent.get<std::uint64_t>() <= kMost;
  };
  NIBBLE_REQUIRE(value.is_array() && value.size() == 2 && is_extent(value[0]) && is_extent(value[1]), FormatError,
                 "{}: {}: expected [rows, columns] from 1 to {}, got {}", where, key, kMost, shown(value));
  return {value[0].get<std::size_t>(), value[1].get<std::size_t>()};
}

// Sparsity and rotations would change what the stored values mean.
void require_nothing_else(const JsonFields& fields) {
  for (const char* key : {"sparsity_config", "transform_config"}) {
    const Json* found = fields.find(key);
    const bool nothing =
        found == nullptr || found->empty() || (found->is_object() && found->value("format", Json()) == "dense");
    NIBBLE_REQUIRE(nothing, FormatError, "{}: {}: expected none, got {}{}", fields.what(), key, shown(*found), kHint);
  }
}

void read_compressed_tensors(const JsonFields& fields, NarrowConfig& config) {
  const auto require_format = [](const JsonFields& from) {
    const std::string& format = from.text("format");
    NIBBLE_REQUIRE(format == "float-quantized" || format == "naive-quantized", FormatError,
                   "{}: format: expected \"float-quantized\", got \"{}\", which is not read{}", from.what(),
                   excerpt(format), kHint);
  };
  require_format(fields);
  require_nothing_else(fields);
  const JsonFields groups = fields.object("config_groups");
  bool has_block = false;
  for (const auto& [name, group] : fields.at("config_groups", "an object").items()) {
    const JsonFields of_group(group, fmt::format("{}: config_groups: '{}'", fields.what(), excerpt(name)));
    if (of_group.has("format")) require_format(of_group);
    const JsonFields weights = of_group.object("weights");
    const std::string type = weights.text_or("type", "int");
    const std::uint64_t bits = weights.integer_or("num_bits", 8, 1, 64);
    NIBBLE_REQUIRE(type == "float" && bits == 8 && weights.boolean_or("symmetric", true), FormatError,
                   "{}: expected symmetric weights of type float and 8 bits, got {} of {} bits{}", weights.what(),
                   excerpt(type), bits, kHint);
    const Json* block = weights.find("block_structure");
    if (block == nullptr) continue;
    const auto extents = block_of(*block, weights.what(), "block_structure");
    NIBBLE_REQUIRE(!has_block || extents == config.scale_block, FormatError,
                   "{}: block_structure: expected [{}, {}] as in another group, got {}", weights.what(),
                   config.scale_block[0], config.scale_block[1], shown(*block));
    config.scale_block = extents;
    has_block = true;
  }
}

}  // namespace

std::optional<NarrowConfig> parse_narrow_config(std::string_view config_text, std::string_view what) {
  const Json whole = parse_strict_json(config_text, what);
  NIBBLE_REQUIRE(whole.is_object(), FormatError, "{}: expected a JSON object, got {}", what, whole.type_name());
  const auto found = whole.find("quantization_config");
  if (found == whole.end() || found->is_null()) return std::nullopt;
  const JsonFields fields(*found, fmt::format("{}: quantization_config", what));
  NarrowConfig config;
  config.method = fields.text("quant_method");
  if (config.method == kOwnQuantMethod) return std::nullopt;
  if (config.method == "compressed-tensors") {
    read_compressed_tensors(fields, config);
  } else if (config.method == "fp8") {
    if (const Json* block = fields.find("weight_block_size"))
      config.scale_block = block_of(*block, fields.what(), "weight_block_size");
  } else {
    NIBBLE_REQUIRE(config.method == "mxfp4" || config.method == "fbgemm_fp8", FormatError,
                   "{}: quant_method: expected \"nibble\", \"mxfp4\", \"fp8\", \"fbgemm_fp8\" or "
                   "\"compressed-tensors\", got \"{}\", which is not read{}",
                   fields.what(), excerpt(config.method), kHint);
  }
  return config;
}

bool is_own_config(std::string_view config_text, std::string_view what) {
  const Json whole = parse_strict_json(config_text, what);
  const auto found = whole.is_object() ? whole.find("quantization_config") : whole.end();
  return found != whole.end() && found->is_object() && found->value("quant_method", Json()) == kOwnQuantMethod;
}

}  // namespace nibble::model
