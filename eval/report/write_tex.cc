#include "eval/report/text_escape.h"
#include "eval/report/writers.h"

namespace nibble::eval {
namespace {

constexpr std::size_t kMaxFigureRows = 64;
constexpr std::size_t kLongTextFrom = 60;  // bytes, from which a column gets a width and breaks its lines

// Line breaks only: a comment must not end where a name has one, and a cell has no paragraphs.
std::string column_type(const ReportTable& table, std::size_t column) {
  bool is_number = true;
  std::size_t longest = 0;
  for (const auto& row : table.rows) {
    if (column >= row.size()) continue;
    is_number = is_number && row[column].is_number;
    longest = std::max(longest, row[column].text.size());
  }
  return is_number ? "r" : longest > kLongTextFrom ? "p{0.5\\linewidth}" : "l";
}

void append(const ReportTable& table, std::string& text) {
  if (table.rows.empty()) return;
  for (const std::string& warning : table.warnings)
    text += "\\noindent\\textbf{Warning:} " + tex_text(warning) + ".\\par\n";
  std::string types;
  for (std::size_t c = 0; c < table.columns.size(); ++c) types += column_type(table, c);
  text += "\\begin{longtable}{@{}" + types + "@{}}\n";
  if (!table.title.empty() || !table.caption.empty())
    text +=
        "\\caption{" + tex_text(table.title) + (table.title.empty() ? "" : ". ") + tex_text(table.caption) + "}\\\\\n";
  text += "\\toprule\n";
  for (std::size_t c = 0; c < table.columns.size(); ++c) text += (c > 0 ? " & " : "") + tex_text(table.columns[c]);
  text += " \\\\\n\\midrule\n\\endhead\n\\bottomrule\n\\endfoot\n";
  for (const auto& row : table.rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      const TableCell& cell = row[c];
      std::string content = tex_text(cell.text);
      if (cell.is_best) content = "\\textbf{" + content + "}";
      if (cell.near_best) content += "$^\\dagger$";
      if (!cell.detail.empty()) content += " {\\footnotesize (" + tex_text(cell.detail) + ")}";
      text += (c > 0 ? " & " : "") + content;
    }
    text += " \\\\\n";
  }
  text += "\\end{longtable}\n\n";
}

void append(const Figure& figure, std::string& text) {
  if (figure.data.rows.size() > kMaxFigureRows) return;
  ReportTable table = figure.data;
  table.title = figure.title;
  append(table, text);
}

void append(const Paragraph& paragraph, std::string& text) { text += tex_text(paragraph.text) + "\n\n"; }

}  // namespace

std::string tex_report(const Report& report) {
  std::string text = "% Needs \\usepackage{booktabs,longtable,textcomp} and \\usepackage[T1]{fontenc}.\n";
  text += "\\section*{" + tex_text(report.title) + "}\n" + tex_text(report.summary) + "\n\n";
  for (const std::string& warning : report.warnings)
    text += "\\noindent\\textbf{Warning:} " + tex_text(warning) + ".\\par\n";
  for (const Section& section : report.sections) {
    text += "\\subsection*{" + tex_text(section.title) + "}\n";
    for (const auto& item : section.items) std::visit([&](const auto& part) { append(part, text); }, item);
  }
  return text;
}

}  // namespace nibble::eval
