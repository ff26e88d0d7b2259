#pragma once

#include <string>
#include <variant>
#include <vector>

namespace nibble::eval {

// What a report says, apart from how it is written: writers.h turns it into HTML, Markdown and LaTeX. All texts are
// plain; escaping is the writers' business. The exception is Figure::svg, made by svg.h, which escapes.

struct TableCell {
  std::string text = {};
  std::string detail = {};  ///< a second, smaller line
  bool is_best = false;     ///< the lowest of what is comparable, told apart from all others
  /// Within two standard errors of the lowest, or the lowest of several such. Of a change: of none.
  bool undecided = false;
  bool is_number = true;  ///< right-aligned
};

struct ReportTable {
  std::string title = {};
  std::string caption = {};
  std::vector<std::string> columns = {};  ///< the first one heads the row names
  std::vector<std::vector<TableCell>> rows = {};
  std::vector<std::string> warnings = {};  ///< mixtures that a reader must know about
};

struct Figure {
  std::string title = {};
  std::string caption = {};
  std::string svg = {};
  ReportTable data = {};  ///< the same figures to read, hear and copy
};

struct Paragraph {
  std::string text = {};
};

struct Section {
  std::string title = {};
  std::vector<std::variant<Paragraph, ReportTable, Figure>> items = {};
};

struct Report {
  std::string title = {};
  std::string summary = {};
  std::vector<std::string> warnings = {};
  std::vector<Section> sections = {};
};

}  // namespace nibble::eval
