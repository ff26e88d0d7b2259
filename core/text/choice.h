#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/text/suggest.h"

namespace nibble {

/// A word of a user and what it stands for.
template <class T>
struct Choice {
  std::string_view name;
  T value;
};

/// The words, in the order of `choices`.
template <class T, std::size_t kCount>
std::vector<std::string_view> names_of(const std::array<Choice<T>, kCount>& choices) {
  std::vector<std::string_view> names;
  for (const Choice<T>& choice : choices) names.push_back(choice.name);
  return names;
}

/// The value that `name` stands for; empty for an unknown word.
template <class T, std::size_t kCount>
std::optional<T> find_choice(std::string_view name, const std::array<Choice<T>, kCount>& choices) {
  for (const Choice<T>& choice : choices)
    if (choice.name == name) return choice.value;
  return std::nullopt;
}

/// The value that `name` stands for. Throws InvalidArgument naming the option or key, the words there are and the
/// nearest; `between` stands between the words.
template <class T, std::size_t kCount>
T choose(std::string_view option, std::string_view name, const std::array<Choice<T>, kCount>& choices,
         std::string_view between = " or ") {
  if (const auto found = find_choice(name, choices)) return *found;
  const std::vector<std::string_view> names = names_of(choices);
  throw InvalidArgument(
      fmt::format("{}: expected {}, got '{}'{}", option, fmt::join(names, between), name, did_you_mean(name, names)));
}

/// The word for a value. Requires that there is one.
template <class T, std::size_t kCount>
std::string_view name_of(T value, const std::array<Choice<T>, kCount>& choices) {
  for (const Choice<T>& choice : choices)
    if (choice.value == value) return choice.name;
  return {};
}

}  // namespace nibble
