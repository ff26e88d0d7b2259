#include "quant/recipe/name_pattern.h"

#include "core/error.h"

namespace nibble::quant {
namespace {

// Names have some 40 bytes, and sane patterns take some hundred steps on them.
constexpr Pattern::Limits kLimits{.pattern_bytes = 1024, .steps = 100'000, .depth = 1'000, .heap_kib = 1'024};

/// What a recipe asks for is an argument, not a file's format.
template <class Work>
auto as_argument(Work work) {
  try {
    return work();
  } catch (const FormatError& error) {
    throw InvalidArgument(fmt::format("match: {}", error.what()));
  }
}

}  // namespace

NamePattern::NamePattern(std::string_view text)
    : pattern_(as_argument([&] { return Pattern(text, Pattern::Over::kBytes, kLimits); })) {}

bool NamePattern::found_in(std::string_view name) const {
  return as_argument([&] { return pattern_.search(name).has_value(); });
}

}  // namespace nibble::quant
