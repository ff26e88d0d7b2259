#pragma once

#include <string_view>

#include "quant/recipe/recipe.h"

namespace nibble::quant {

/// Recipe::settings() for a tensor that is quantized by itself, without its model. Throws InvalidArgument, which begins
/// with `who`, where the recipe asks for what only a model has: budget, tuning, input_scaling. `sequential` says which
/// statistics there are to be, and stays for who brings them.
TensorSettings lone_settings(const Recipe& recipe, std::string_view name, std::string_view who);

}  // namespace nibble::quant
