#include "eval/report/text_escape.h"
#include "eval/report/writers.h"

namespace nibble::eval {
namespace {

constexpr std::size_t kMaxFigureRows = 64;

void append_markdown(const ReportTable& table, std::string& text) {
  if (table.rows.empty()) return;
  if (!table.title.empty()) text += "### " + markdown_text(table.title) + "\n\n";
  for (const std::string& warning : table.warnings) text += "> **Warning:** " + markdown_text(warning) + "\n\n";
  for (const std::string& column : table.columns) text += "| " + markdown_text(column) + " ";
  text += "|\n";
  for (std::size_t c = 0; c < table.columns.size(); ++c)
    text += c < table.rows[0].size() && table.rows[0][c].is_number ? "|---:" : "|---";
  text += "|\n";
  for (const auto& row : table.rows) {
    for (const TableCell& cell : row) {
      std::string content = markdown_text(cell.text);
      if (cell.is_best) content = "**" + content + "**";
      if (cell.undecided) content += " †";
      if (!cell.detail.empty()) content += " (" + markdown_text(cell.detail) + ")";
      text += "| " + content + " ";
    }
    text += "|\n";
  }
  text += "\n";
  if (!table.caption.empty()) text += markdown_text(table.caption) + "\n\n";
}

void append_markdown(const Figure& figure, std::string& text) {
  if (figure.data.rows.size() > kMaxFigureRows) return;
  ReportTable table = figure.data;
  table.title = figure.title;
  append_markdown(table, text);
}

void append_markdown(const Paragraph& paragraph, std::string& text) { text += markdown_text(paragraph.text) + "\n\n"; }

}  // namespace

std::string markdown_report(const Report& report) {
  std::string text = "# " + markdown_text(report.title) + "\n\n" + markdown_text(report.summary) + "\n\n";
  for (const std::string& warning : report.warnings) text += "> **Warning:** " + markdown_text(warning) + "\n\n";
  for (const Section& section : report.sections) {
    text += "## " + markdown_text(section.title) + "\n\n";
    for (const auto& item : section.items) std::visit([&](const auto& part) { append_markdown(part, text); }, item);
  }
  return text;
}

}  // namespace nibble::eval
