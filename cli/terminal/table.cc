#include "cli/terminal/table.h"

#include <algorithm>
#include <utility>

#include "core/text/excerpt.h"

namespace nibble::cli {
namespace {

std::string on_one_line(std::string_view text) { return excerpt(text, std::string_view::npos); }

std::string padded(std::string_view text, std::size_t width, Align align) {
  const std::size_t length = character_count(text);
  const std::string blanks(width > length ? width - length : 0, ' ');
  return align == Align::kLeft ? std::string(text) + blanks : blanks + std::string(text);
}

void append_line(std::string& text, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  text += line + '\n';
}

}  // namespace

void Table::add_row(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = on_one_line(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = character_count(columns_[c].title);
    for (const auto& row : rows_)
      if (c < row.size()) width = std::max(width, character_count(row[c]));
    widths.push_back(width);
  }
  const auto line_of = [&](auto&& cell) {
    std::string line;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) line += "  ";
      line += padded(cell(c), widths[c], columns_[c].align);
    }
    return line;
  };
  const std::string rule = line_of([&](std::size_t c) { return std::string(widths[c], '-'); });
  std::string text;
  append_line(text, line_of([&](std::size_t c) { return columns_[c].title; }));
  append_line(text, rule);
  for (const auto& row : rows_)
    append_line(text, row.empty() ? rule : line_of([&](std::size_t c) { return c < row.size() ? row[c] : ""; }));
  return text;
}

std::string aligned_facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::size_t width = 0;
  for (const auto& [name, value] : facts) width = std::max(width, character_count(name));
  std::string text;
  for (const auto& [name, value] : facts)
    append_line(text, padded(name, width, Align::kLeft) + "  " + on_one_line(value));
  return text;
}

std::size_t character_count(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }));
}

}  // namespace nibble::cli
