#include "quant/recipe/lone_settings.h"

#include "core/error.h"

namespace nibble::quant {

TensorSettings lone_settings(const Recipe& recipe, std::string_view name, std::string_view who) {
  NIBBLE_REQUIRE(!recipe.budget() && !recipe.tuning(), InvalidArgument,
                 "{}: a layer alone has no {}; leave the section out", who,
                 recipe.budget() ? "budget, which is shared by layers" : "tuning, which a model's loss drives");
  TensorSettings settings = recipe.settings(name);
  NIBBLE_REQUIRE(
      settings.input_scaling == InputScaling::kNone, InvalidArgument,
      "{}: input_scaling: a layer alone has no norm in front into which scales fold; say input_scaling: none", who);
  return settings;
}

}  // namespace nibble::quant
