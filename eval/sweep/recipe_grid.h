#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/yaml.h"
#include "eval/sweep/sweep_spec.h"

namespace nibble::eval {

/// One entry of `exclude`: the cells that have one of the values of every key given. `recipe` is a name without the
/// draw of calibration text that tables add to it where there are several.
class Exclusion {
 public:
  /// Keys: the recipe's, `recipe` (the recipe's name in the table), `model`, `evaluation`. Throws InvalidArgument.
  Exclusion(const YamlNode& node, std::string_view what);
  bool covers(const SweepModel& model, const SweepRecipe& recipe, const SweepEvaluation& evaluation) const;
  /// Whether the settings as they are given, before they are known to make sense together, rule the recipe out.
  bool covers_given(const std::vector<std::pair<std::string, std::string>>& settings) const;

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> keys_;  // recipe's keys: values as JSON
};

/// The recipes of a sweep: the product of `grid`, then the entries of `list`. Nodes may be null (not given).
/// Settings are the recipe's keys, `preset` and `recipe` (a file) to start from, and in `list` a `name`; or in `list`
/// nothing but a `checkpoint` and a `name`. `defaults` hold for the grid, and for entries that name no preset or recipe
/// of their own.
struct RecipeNodes {
  const YamlNode* defaults = nullptr;
  const YamlNode* grid = nullptr;
  const YamlNode* list = nullptr;
};
struct ExpandedRecipes {
  std::vector<SweepRecipe> recipes;
  std::vector<std::string> left_out;  ///< names of those that an exclusion covers whatever the model and evaluation
};
/// What an exclusion covers is left out before its settings are checked. Throws InvalidArgument with the line.
ExpandedRecipes expand_recipes(const RecipeNodes& nodes, std::span<const Exclusion> exclusions, std::string_view what);

/// Where a listed checkpoint of the model called `model` lies: "{model}" in its path stands for that name.
std::filesystem::path checkpoint_for(const std::filesystem::path& path, std::string_view model);

}  // namespace nibble::eval
