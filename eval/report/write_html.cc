#include <fmt/format.h>

#include "eval/report/html_page.h"
#include "eval/report/text_escape.h"
#include "eval/report/writers.h"

namespace nibble::eval {
namespace {

void append_warnings(const std::vector<std::string>& warnings, std::string& html) {
  for (const std::string& warning : warnings)
    html += "<p class=\"warning\" role=\"note\"><strong>Mind:</strong> " + html_text(warning) + "</p>\n";
}

void append_cell(const TableCell& cell, bool is_head, std::string& html) {
  const std::string content = html_text(cell.text);
  if (is_head) {
    html += "<th scope=\"row\">" + content + "</th>";
    return;
  }
  html += fmt::format("<td class=\"{}{}\">", cell.is_number ? "n" : "w", cell.is_best ? " best" : "");
  html += cell.is_best ? "<b>" + content + "</b>" : content;
  if (cell.undecided) html += " <abbr title=\"undecided: within two standard errors\">†</abbr>";
  if (!cell.detail.empty()) html += "<small>" + html_text(cell.detail) + "</small>";
  html += "</td>";
}

void append_rows(const ReportTable& table, const std::string& name, std::string& html) {
  html += fmt::format("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table>\n<thead><tr>",
                      html_text(name));
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const bool is_number = !table.rows.empty() && c < table.rows[0].size() && table.rows[0][c].is_number;
    html += fmt::format("<th scope=\"col\"{}>{}</th>", is_number ? " class=\"n\"" : "", html_text(table.columns[c]));
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c) append_cell(row[c], c == 0 && !row[c].is_number, html);
    html += "</tr>\n";
  }
  html += "</tbody></table></div>\n";
}

void append(const ReportTable& table, std::string& html) {
  if (table.rows.empty()) return;
  if (!table.title.empty()) html += "<h3>" + html_text(table.title) + "</h3>\n";
  append_warnings(table.warnings, html);
  append_rows(table, table.title, html);
  if (!table.caption.empty()) html += "<p class=\"caption\">" + html_text(table.caption) + "</p>\n";
}

void append(const Figure& figure, std::string& html) {
  html += "<h3>" + html_text(figure.title) +
          "</h3>\n<figure><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" +
          html_text(figure.title) + "\">" + figure.svg + "</div>\n<figcaption class=\"caption\">" +
          html_text(figure.caption) + "</figcaption></figure>\n";
  if (figure.data.rows.empty()) return;
  html += "<details><summary>As a table</summary>\n";
  append_rows(figure.data, figure.title, html);
  html += "</details>\n";
}

void append(const Paragraph& paragraph, std::string& html) { html += "<p>" + html_text(paragraph.text) + "</p>\n"; }

}  // namespace

std::string html_report(const Report& report) {
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src "
      "'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n";  // nothing is ever fetched
  html += "<title>" + html_text(report.title) + "</title>\n<style>" + std::string(kPageStyle) +
          "</style>\n</head>\n<body>\n";
  html += "<header><a class=\"skip\" href=\"#main\">Skip to the results</a><h1>" + html_text(report.title) +
          "</h1>\n<p class=\"summary\">" + html_text(report.summary) +
          "</p>\n<button class=\"theme\" type=\"button\" hidden>Dark page</button>\n<nav aria-label=\"Sections\">";
  for (std::size_t s = 0; s < report.sections.size(); ++s)
    html += fmt::format("<a href=\"#section-{}\">{}</a>", s, html_text(report.sections[s].title));
  html += "</nav></header>\n<main id=\"main\">\n";
  append_warnings(report.warnings, html);
  for (std::size_t s = 0; s < report.sections.size(); ++s) {
    html += fmt::format("<section aria-labelledby=\"section-{0}\"><h2 id=\"section-{0}\">{1}</h2>\n", s,
                        html_text(report.sections[s].title));
    for (const auto& item : report.sections[s].items) std::visit([&](const auto& part) { append(part, html); }, item);
    html += "</section>\n";
  }
  html += "</main>\n<footer>Made by nibble report.</footer>\n<div id=\"tip\" role=\"tooltip\" hidden></div>\n<script>" +
          std::string(kPageScript) + "</script>\n</body>\n</html>\n";
  return html;
}

}  // namespace nibble::eval
