#pragma once

#include <string>
#include <vector>

#include "eval/report/document.h"
#include "eval/report/pivot.h"

namespace nibble::eval {

/// What a reader of a table over these entries must be warned of: perplexities of different evaluations, results of
/// different commits, processors or kernels side by side; of different calibrations, but for `shown` settings of them.
std::vector<std::string> mixture_warnings(const Entries& entries, const SettingNames& shown = {});

/// What the calibration of a cell looked at, but for `shown` settings of it: cells that differ here must not be mixed.
std::string calibration_sample(const Entry& entry, const SettingNames& shown);
/// Whether statistics of the same text, taken the same way, are behind both, but for `shown` settings of them. A cell
/// without statistics, or without a guide, mixes with all.
bool are_calibrated_alike(const Entry& a, const Entry& b, const SettingNames& shown);

/// Perplexities ± standard errors, with the loss over the baseline on a second line. Marked per column: the best cell
/// of what is comparable, and those that a paired test does not tell from it.
ReportTable pivot_table(const Pivot& pivot, const PivotSettings& settings);

/// One row per entry, by perplexity: every measure.
ReportTable list_table(const Entries& entries);

/// One row per entry and context of those that measured speed.
ReportTable speed_table(const Entries& entries);
ReportTable failed_table(const std::vector<Entry>& failed);
ReportTable storage_table(const StorageSection& section);
/// The environments that results come from, and how many of each.
ReportTable environment_table(const Entries& entries);
/// The command that repeats each cell.
ReportTable command_table(const Entries& entries);

}  // namespace nibble::eval
