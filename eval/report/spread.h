#pragma once

#include <string>
#include <vector>

#include "eval/report/document.h"
#include "eval/report/pivot.h"

namespace nibble::eval {

/// What a setting that only stands for chance does (`calibration.seed`: the draw of the text; a recipe's `seed`): cells
/// that agree in all else, by model and evaluation, as mean ± sample standard deviation of their figures over the
/// values of `over`. The second line of a cell is its difference from the lowest mean of its column, paired over the
/// values that both have, ± the standard error of that mean. `settings` are rows and columns; empty ones as
/// default_pivot() has them. The float model is left out. Throws InvalidArgument where no two cells differ in `over`
/// alone.
std::vector<ReportTable> spread_tables(const Entries& entries, const std::string& over, const PivotSettings& settings);

}  // namespace nibble::eval
