#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "eval/report/entries.h"

namespace nibble::eval {

/// Reads sweep records and other commands' measurements (measurement_input.h) from directories and files. A damaged
/// file is named in `problems` and passed over; records of the same id count once, the first that did not fail, and so
/// do measurements of the same bytes. Throws FormatError when a path cannot be read, or when nothing of use is found.
ReportInput load_report_input(const std::vector<std::filesystem::path>& paths);

/// Fills to_baseline of every entry. `baseline` is a recipe's label; empty: the float model where it was measured.
/// Throws InvalidArgument when no entry has that label.
void compare_to_baseline(ReportInput& input, const std::string& baseline);

}  // namespace nibble::eval
