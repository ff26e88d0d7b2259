#pragma once

#include <span>
#include <string>
#include <string_view>

namespace nibble {

/// The candidate nearest to `word` by edit distance (insert, delete, substitute, swap of neighbours), if it is at most
/// a third of the word's length plus one away; empty otherwise. Cost O(candidates · length²).
std::string nearest_name(std::string_view word, std::span<const std::string_view> candidates);

/// "; did you mean 'nearest'?" or an empty text: to append to a message about an unknown name.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace nibble
