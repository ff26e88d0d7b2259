#pragma once

#include <string>
#include <string_view>

namespace nibble::eval {

// Names and messages of records are strangers' text. Each of these makes text harmless in one place: control characters
// become spaces, bytes that are not UTF-8 become U+FFFD, and what the format would read as its own is escaped.

std::string html_text(std::string_view text);  ///< for HTML and SVG content and attributes in double quotes
/// For running text of LaTeX with T1 fonts; characters that it cannot set stand as U+1F642.
std::string tex_text(std::string_view text);
std::string markdown_text(std::string_view text);  ///< for a cell of a Markdown table
/// A field of CSV (RFC 4180), always quoted; text that a spreadsheet would take for a formula (= + - @ and not a
/// number) gets an apostrophe before it.
std::string csv_text(std::string_view text);

}  // namespace nibble::eval
