#pragma once

#include <string>

#include "eval/report/document.h"
#include "eval/report/report_input.h"

namespace nibble::eval {

/// One self-contained page: inline SVG, no network, light and dark, for the keyboard and for print.
std::string html_report(const Report& report);

/// Tables as GitHub-flavoured Markdown; of figures, their figures as tables where those are short.
std::string markdown_report(const Report& report);

/// Tables as LaTeX, to be \input: needs the packages array, booktabs and longtable. Nothing in names or messages is
/// read as a command.
std::string tex_report(const Report& report);

/// All cells, failed ones too, one line each, where speed was measured one for each context: every setting and measure
/// under its name with its unit. RFC 4180.
std::string csv_report(const ReportInput& input);

}  // namespace nibble::eval
