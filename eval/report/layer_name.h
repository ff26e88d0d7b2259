#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble::eval {

/// A module's name taken apart: "h.3.attn.c_attn.q" is block 3, kind "attn.c_attn.q".
struct LayerName {
  std::size_t block = 0;
  std::string kind;
};

/// Empty for a module outside the blocks: no part of its name is a number below 10,000.
std::optional<LayerName> parse_layer_name(std::string_view name);

}  // namespace nibble::eval
