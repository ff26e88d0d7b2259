#pragma once

#include <optional>
#include <string>

#include "eval/report/document.h"
#include "eval/report/pivot.h"
#include "eval/report/published.h"

namespace nibble::eval {

struct ReportOptions {
  std::string title = "Quantization sweep";
  SettingNames rows = {}, columns = {};  ///< empty: default_pivot()
  std::string over = {};                 ///< a setting whose values are taken together: spread_tables()
  std::optional<PublishedFigures> published = {};
};

/// The whole report: tables by rows and columns, their means over a setting, figures per model and evaluation, all
/// cells, storage studies, failures, environments and commands. Call pool_texts() and compare_to_baseline() before. The
/// same input gives the same report. Throws InvalidArgument for a setting that no cell has.
Report build_report(const ReportInput& input, const ReportOptions& options);

}  // namespace nibble::eval
