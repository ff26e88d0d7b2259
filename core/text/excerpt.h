#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nibble {

/// A stranger's text for a message: its whole characters among the first `longest` bytes, and "…" where there is more.
/// Control characters, and bytes that are no UTF-8, become '?': messages go to terminals and into JSON.
std::string excerpt(std::string_view text, std::size_t longest = 80);

/// All of a message that holds strangers' text, for a terminal: control characters but line breaks, and bytes that are
/// no UTF-8, become '?'.
std::string printable(std::string_view text);

/// The same as excerpt() between single quotes.
std::string in_quotes(std::string_view text, std::size_t longest = 80);

}  // namespace nibble
