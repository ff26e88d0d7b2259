#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/recipe/settings.h"

namespace nibble::quant {

/// One key of a recipe: a row of the table in docs/recipe.md.
struct RecipeKey {
  std::string_view name;
  /// Parses and range-checks a value. Throws InvalidArgument with the values expected.
  std::function<void(TensorSettings&, std::string_view)> assign;
  std::function<nlohmann::ordered_json(const TensorSettings&)> print;
  /// Takes the default back.
  std::function<void(TensorSettings&)> reset;
  std::function<bool(const TensorSettings&)> is_default;
  /// Whether the key means something beside the others, and what it goes with (for messages).
  std::function<bool(const TensorSettings&)> applies;
  std::string_view goes_with;
  /// Whether it may stand in the canonical text: where it applies, and where texts had it that must not change.
  std::function<bool(const TensorSettings&)> printed;
  bool printed_by_default = true;  ///< in the canonical text of `defaults`; rules print whatever they say
};

/// All keys; a key comes after those that decide whether it applies.
std::span<const RecipeKey> recipe_keys();
/// Throws InvalidArgument suggesting the nearest name.
const RecipeKey& find_recipe_key(std::string_view name);

/// Combinations of several keys' values that make no sense. Throws InvalidArgument saying why.
void check_combination(const TensorSettings& settings);

Granularity parse_granularity(std::string_view text);
std::string_view granularity_name(Granularity granularity);
LossEstimate parse_loss_estimate(std::string_view text);
std::string_view loss_estimate_name(LossEstimate estimate);
unsigned parse_bits(std::string_view text);
unsigned parse_window_bits(std::string_view text);
/// The whole number, at most `most`, or the finite number that `text` says; throw InvalidArgument starting with `key`.
std::uint64_t parse_count(std::string_view key, std::string_view text, std::uint64_t most);
double parse_number(std::string_view key, std::string_view text, double least, double most);

}  // namespace nibble::quant
