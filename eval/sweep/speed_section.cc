#include "eval/sweep/speed_section.h"

#include <array>
#include <charconv>

#include "core/error.h"
#include "core/text/json.h"
#include "eval/sweep/yaml_section.h"
#include "model/transformer/cache/cache_names.h"

namespace nibble::eval {
namespace {

constexpr std::uint64_t kLeastContext = 4, kMostPositions = 1 << 26, kMostRuns = 1 << 20;

std::size_t parse_context(const std::string& text) {
  std::uint64_t context = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), context);
  NIBBLE_REQUIRE(status == std::errc() && end == text.data() + text.size() && context >= kLeastContext &&
                     context <= kMostPositions,
                 InvalidArgument, "contexts: expected whole numbers from {} to {}, got '{}'", kLeastContext,
                 kMostPositions, text);
  return context;
}

}  // namespace

SweepSpeed parse_speed(const YamlNode& node, std::string_view what) {
  constexpr std::array<std::string_view, 9> kKeys{"contexts", "prompt", "generate", "cache", "cache_type",
                                                  "compute",  "repeat", "warm_up",  "seed"};
  const YamlSection section(node, what, "speed", kKeys);
  SweepSpeed speed;
  for (const std::string& text : section.texts("contexts")) {
    try {
      speed.contexts.push_back(parse_context(text));
    } catch (const InvalidArgument& error) {
      section.fail(*section.find("contexts"), error.what());
    }
  }
  if (section.has("prompt")) speed.prompt = section.count("prompt", 1, kMostPositions, 0);
  speed.generate = section.count("generate", 1, kMostPositions, speed.generate);
  speed.repeat = section.count("repeat", 1, kMostRuns, speed.repeat);
  speed.warm_up = section.count("warm_up", 0, kMostRuns, speed.warm_up);
  speed.seed = section.count("seed", 0, ~std::uint64_t{0}, 0);
  speed.cache = section.parsed("cache", "state",
                               [](const std::string& text) { return choose("cache", text, model::kCacheKinds); });
  speed.cache_type = section.parsed(
      "cache_type", "f32", [](const std::string& text) { return choose("cache_type", text, model::kCacheTypes); });
  speed.compute = section.parsed("compute", "exact", [](const std::string& text) {
    const auto compute = quant::compute_from_name(text);
    NIBBLE_REQUIRE(compute.has_value(), InvalidArgument, "compute: there is no mode '{}'; 'exact' always is", text);
    return *compute;
  });
  return speed;
}

nlohmann::ordered_json speed_json(const SweepSpeed& speed) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!speed.contexts.empty()) json["contexts"] = speed.contexts;
  if (speed.prompt) json["prompt"] = *speed.prompt;
  json["generate"] = speed.generate;
  json["cache"] = name_of(speed.cache, model::kCacheKinds);
  json["cache_type"] = name_of(speed.cache_type, model::kCacheTypes);
  json["compute"] = quant::compute_name(speed.compute);
  json["repeat"] = speed.repeat;
  json["warm_up"] = speed.warm_up;
  json["seed"] = speed.seed;
  return json;
}

}  // namespace nibble::eval
