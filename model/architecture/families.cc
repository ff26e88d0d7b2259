#include "model/architecture/families.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/text/json.h"
#include "core/text/strict_json.h"
#include "core/text/suggest.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/parts.h"

namespace nibble::model {
namespace {

std::vector<Family>& registered() {
#define NIBBLE_ENTRY(NAME) {#NAME, parse_##NAME},
  static std::vector<Family> list = {NIBBLE_FAMILIES(NIBBLE_ENTRY)};
#undef NIBBLE_ENTRY
  return list;
}

// As methods of quantization_config that nobody reads are refused: MLX says its codes here, and there without a method.
void refuse_mlx_codes(const FamilyConfig& config) {
  const nlohmann::json* found = config.find("quantization");
  const bool mlx = found != nullptr && found->is_object() && found->contains("group_size") && found->contains("bits");
  NIBBLE_REQUIRE(!mlx, FormatError,
                 "{}: 'quantization': expected float weights, got the codes of MLX, which are not read; quantize the "
                 "float checkpoint that they were made from",
                 config.what());
}

void refuse_unread(const FamilyConfig& config) {
  const std::vector<std::string> unread = config.not_understood();
  NIBBLE_REQUIRE(unread.empty(), FormatError,
                 "{}: '{}' is not known: it may change what the network computes. Take it out if you know that it does "
                 "not{}",
                 config.what(), unread.front(),
                 unread.size() > 1 ? fmt::format(" (and {})", fmt::join(unread.begin() + 1, unread.end(), ", ")) : "");
}

}  // namespace

std::span<const Family> families() { return registered(); }

void register_family(const Family& family) {
  for (const Family& other : registered())
    NIBBLE_REQUIRE(other.model_type != family.model_type, InvalidArgument, "family '{}' is there already",
                   family.model_type);
  registered().push_back(family);
}

Architecture parse_architecture(std::string_view config_json, std::string_view what, std::span<const Family> known) {
  const nlohmann::json json = parse_strict_json(config_json, what);
  const FamilyConfig config(json, std::string(what));
  const std::string type = config.text_or("model_type", "");
  std::vector<std::string_view> names;
  for (const Family& family : known) names.push_back(family.model_type);
  const auto family = std::find_if(known.begin(), known.end(), [&](const Family& f) { return f.model_type == type; });
  const bool has_eyes = config.has("text_config") || config.has("vision_config");
  const std::string_view sees = has_eyes ? ", a model that sees as well, of a kind that is not read" : "";
  NIBBLE_REQUIRE(family != known.end(), FormatError, "{}: 'model_type': expected one of {}, got '{}'{}{}", what,
                 fmt::join(names, ", "), type, sees, sees.empty() ? did_you_mean(type, names) : "");
  refuse_mlx_codes(config);
  Architecture architecture = family->parse(config);
  if (architecture.family.empty()) architecture.family = type;
  connect(architecture);
  config.read_special_tokens(architecture);
  config.require_boolean("add_cross_attention", false);
  config.require_boolean("is_encoder_decoder", false);
  refuse_unread(config);
  return architecture;
}

Architecture parse_architecture(std::string_view config_json, std::string_view what) {
  return parse_architecture(config_json, what, families());
}

}  // namespace nibble::model
