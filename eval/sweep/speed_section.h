#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "core/text/yaml.h"
#include "eval/sweep/sweep_spec.h"

namespace nibble::eval {

/// The section `speed` of an evaluation: keys contexts, prompt, generate, cache, cache_type, compute, repeat, warm_up,
/// seed, as the options of `nibble speed`. Throws InvalidArgument with the line.
SweepSpeed parse_speed(const YamlNode& node, std::string_view what);

/// The same section, every key filled in; those without a value (contexts, prompt) are left out.
nlohmann::ordered_json speed_json(const SweepSpeed& speed);

}  // namespace nibble::eval
