#include "quant/recipe/recipe.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text/json.h"
#include "python/src/bindings.h"
#include "python/src/json.h"

namespace nibble::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;
using quant::Recipe;

// Values as a recipe's text has them: "3", "true", "2,3,4".
std::string text_of(nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value) ? "true" : "false";
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    std::string text;
    for (nb::handle item : value) text += (text.empty() ? "" : ",") + text_of(item);
    return text;
  }
  return nb::cast<std::string>(nb::str(value));
}

Recipe make_recipe(const std::optional<std::string>& preset, const nb::kwargs& keys) {
  Recipe recipe = preset ? Recipe::preset(*preset) : Recipe();
  for (const auto& [key, value] : keys) recipe.apply_set(nb::cast<std::string>(key), text_of(value));
  recipe.validate();
  return recipe;
}

Recipe with_keys(const Recipe& recipe, const nb::dict& keys) {
  Recipe changed = recipe;
  for (const auto& [key, value] : keys) changed.apply_set(nb::cast<std::string>(key), text_of(value));
  changed.validate();
  return changed;
}

}  // namespace

void bind_recipe(nb::module_& module) {
  nb::class_<Recipe>(module, "Recipe", R"(What decides the result of a quantization (docs/recipe.md).

Recipe("gptq", bits=3) is a preset with keys of `defaults` changed; a dict of keys such as {"budget.bits": [2, 3, 4]}
goes to with_keys(). A key that is unknown, or that others leave without meaning, is an InvalidArgument that says so.)")
      .def(
          "__init__",
          [](Recipe* self, const std::optional<std::string>& preset, const nb::kwargs& keys) {
            new (self) Recipe(make_recipe(preset, keys));
          },
          "preset"_a = nb::none(), "keys"_a,
          nb::sig("def __init__(self, preset: str | None = None, **keys: object) -> None"))
      .def_static(
          "parse", [](const std::string& yaml) { return Recipe::parse(yaml, "the recipe"); }, "yaml"_a,
          "YAML, so JSON too.")
      .def_static(
          "load", [](const std::filesystem::path& file) { return Recipe::load(file); }, "file"_a)
      .def_static(
          "presets",
          [] { return std::vector<std::string>(Recipe::preset_names().begin(), Recipe::preset_names().end()); },
          "The names of presets.")
      .def("with_keys", &with_keys, "keys"_a, "A copy with these keys changed, as `nibble quantize --set` does.")
      .def("text", &Recipe::canonical_text, "YAML with every default that means something filled in.")
      .def(
          "as_dict", [](const Recipe& recipe) { return from_json(recipe.canonical_json().dump()); },
          nb::sig("def as_dict(self) -> dict[str, typing.Any]"))
      .def(
          "__eq__",
          [](const Recipe& self, nb::handle other) {
            return nb::isinstance<Recipe>(other) &&
                   self.canonical_text() == nb::cast<const Recipe&>(other).canonical_text();
          },
          nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const Recipe& self) { return nb::hash(nb::cast(self.canonical_text())); })
      .def("__getstate__", [](const Recipe& self) { return self.canonical_text(); })
      .def("__setstate__",
           [](Recipe& self, const std::string& text) { new (&self) Recipe(Recipe::parse(text, "the recipe")); })
      .def("__repr__",
           [](const Recipe& recipe) { return "Recipe.parse(\"\"\"\n" + recipe.canonical_text() + "\"\"\")"; });
}

}  // namespace nibble::python
