#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::model {

/// The names of well-known architectures whose shape synthesize_model() can take: "llama-3.1-8b", "gpt2", …
std::vector<std::string_view> architecture_names();

/// config.json of the architecture `name`, with `layers` blocks instead of its own where given. Sizes, positions and
/// ids of special tokens are those of the published configurations.
/// Throws InvalidArgument: an unknown name (with the nearest), layers = 0 or above 4096.
std::string architecture_config(std::string_view name, std::optional<std::uint64_t> layers);

}  // namespace nibble::model
