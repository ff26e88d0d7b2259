#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::cli {

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kRight;
};

/// Text in aligned columns, two spaces apart, under titles and a rule. Widths count characters of UTF-8, not bytes.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// One cell per column; missing ones are blank. Control characters become '?', as in excerpt().
  void add_row(std::vector<std::string> cells);
  /// A rule: what follows are totals.
  void add_rule() { rows_.emplace_back(); }
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

/// "name   value" lines, names padded to the longest, for the few figures of a whole run. Control characters of values
/// become '?'.
std::string aligned_facts(const std::vector<std::pair<std::string, std::string>>& facts);

/// Characters (code points) of UTF-8 text.
std::size_t character_count(std::string_view text);

}  // namespace nibble::cli
