#include <fmt/format.h>

#include <algorithm>

#include "eval/report/text_escape.h"
#include "eval/report/writers.h"

namespace nibble::eval {
namespace {

constexpr std::size_t kMaxTexFigureRows = 64;
constexpr std::size_t kLineLength = 88;    // characters of running text beside each other
constexpr std::size_t kLongTextFrom = 24;  // from which a column of a table too wide gets a width and breaks its lines

std::size_t longest_text(const ReportTable& table, std::size_t column) {
  std::size_t longest = table.columns[column].size();
  for (const auto& row : table.rows)
    if (column < row.size()) longest = std::max({longest, row[column].text.size(), row[column].detail.size()});
  return longest;
}

bool is_number(const ReportTable& table, std::size_t column) {
  return std::all_of(table.rows.begin(), table.rows.end(),
                     [&](const auto& row) { return column >= row.size() || row[column].is_number; });
}

// Where a table is too wide, its long texts share what the other columns leave.
std::string column_types(const ReportTable& table) {
  std::size_t short_texts = 0, long_texts = 0;
  const auto is_long = [&](std::size_t column) {
    return !is_number(table, column) && longest_text(table, column) >= kLongTextFrom;
  };
  for (std::size_t c = 0; c < table.columns.size(); ++c)
    (is_long(c) ? long_texts : short_texts) += longest_text(table, c) + 2;
  const double left = std::max(0.3, 1.0 - static_cast<double>(short_texts) / kLineLength);
  std::string types;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    if (is_long(c) && short_texts + long_texts > kLineLength) {
      const double share = static_cast<double>(longest_text(table, c) + 2) / static_cast<double>(long_texts);
      types += fmt::format(">{{\\raggedright\\arraybackslash}}p{{{:.2f}\\linewidth}}", 0.95 * left * share);
    } else {
      types += is_number(table, c) ? "r" : "l";
    }
  }
  return types;
}

void append_tex(const ReportTable& table, std::string& text) {
  if (table.rows.empty()) return;
  for (const std::string& warning : table.warnings)
    text += "\\noindent\\textbf{Warning:} " + tex_text(warning) + ".\\par\n";
  text += "\\begin{longtable}{@{}" + column_types(table) + "@{}}\n";
  if (!table.title.empty() || !table.caption.empty())
    text +=
        "\\caption{" + tex_text(table.title) + (table.title.empty() ? "" : ". ") + tex_text(table.caption) + "}\\\\\n";
  text += "\\toprule\n";
  for (std::size_t c = 0; c < table.columns.size(); ++c) text += (c > 0 ? " & " : "") + tex_text(table.columns[c]);
  text += " \\\\\n\\midrule\n\\endhead\n\\bottomrule\n\\endfoot\n";
  for (const auto& row : table.rows) {
    std::string details;
    bool has_details = false;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const TableCell& cell = row[c];
      std::string content = tex_text(cell.text);
      if (cell.is_best) content = "\\textbf{" + content + "}";
      if (cell.undecided) content += "$^\\dagger$";
      text += (c > 0 ? " & " : "") + content;
      details += (c > 0 ? " & " : "") + ("{\\footnotesize " + tex_text(cell.detail) + "}");
      has_details = has_details || !cell.detail.empty();
    }
    text += has_details ? " \\\\*\n" + details + " \\\\\n" : " \\\\\n";
  }
  text += "\\end{longtable}\n\n";
}

void append_tex(const Figure& figure, std::string& text) {
  if (figure.data.rows.size() > kMaxTexFigureRows) return;
  ReportTable table = figure.data;
  table.title = figure.title;
  append_tex(table, text);
}

void append_tex(const Paragraph& paragraph, std::string& text) { text += tex_text(paragraph.text) + "\n\n"; }

}  // namespace

std::string tex_report(const Report& report) {
  std::string text = "% Needs \\usepackage{array,booktabs,longtable,textcomp} and \\usepackage[T1]{fontenc}.\n";
  text += "\\section*{" + tex_text(report.title) + "}\n" + tex_text(report.summary) + "\n\n";
  for (const std::string& warning : report.warnings)
    text += "\\noindent\\textbf{Warning:} " + tex_text(warning) + ".\\par\n";
  for (const Section& section : report.sections) {
    text += "\\subsection*{" + tex_text(section.title) + "}\n";
    for (const auto& item : section.items) std::visit([&](const auto& part) { append_tex(part, text); }, item);
  }
  return text;
}

}  // namespace nibble::eval
