#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eval/report/report_input.h"

namespace nibble::eval {

using Entries = std::vector<const Entry*>;
using SettingNames = std::vector<std::string>;

/// Settings that take more than one value among `entries`, in their order of appearance.
SettingNames varying_settings(const Entries& entries);

/// Those that tell the entries apart: without recipes' names, and without settings that follow from the others (`sign`,
/// which only cells with scaling have, where it is the same in all that have it).
SettingNames telling_settings(const Entries& entries);

/// The settings that `names` mean: those of the calibration may go without their prefix ("samples", "seed") where no
/// entry has another setting of that name.
SettingNames full_names(const Entries& entries, SettingNames names);

/// Throws InvalidArgument for a setting that no entry has, with the nearest name.
void check_setting_names(const Entries& entries, const SettingNames& names);

/// The values of `names` in one entry as a row or column heading: "3" for one name; for several those that are not
/// none, false or 0: "weighting fisher, scaling std". "none" if nothing is left.
std::string heading(const Entry& entry, const SettingNames& names);

/// Entries by rows and columns; a cell holds at most one.
struct Pivot {
  std::vector<std::pair<std::string, std::string>> fixed = {};  ///< what all of them have in common: "model", "gpt2", …
  std::vector<std::string> row_names = {},
                           column_names = {};  ///< in natural order: numbers by value, none before others
  std::map<std::pair<std::string, std::string>, const Entry*> cells = {};
  Entries entries = {};
};

/// The entries of one column, in the order of their rows' headings.
Entries column_of(const Pivot& pivot, const std::string& column);

/// Splits `entries` into tables by `rows` and `columns`: by model and evaluation first, unless those are pivoted by,
/// and then by whatever setting differs between entries that would fall into one cell. Entries that agree in every
/// setting (from two calibrations, say) end in tables of their own. The name of a given checkpoint stands for the
/// settings of `rows`, or else of `columns`, that it lacks, unless recipes make rows or columns. Throws InvalidArgument
/// for a setting that no entry has, with the nearest name, and for one that is named twice.
std::vector<Pivot> make_pivots(const Entries& entries, const SettingNames& rows, const SettingNames& columns);

/// Rows and columns that suit a set of entries: `bits` over the other settings that tell, where bits vary (where some
/// have budgets, kWidthSetting); else recipes by model.
struct PivotSettings {
  SettingNames rows = {}, columns = {};
  SettingNames shown() const;  ///< both
};
PivotSettings default_pivot(const Entries& entries);

/// `suited` with what `given` says in place of its rows or columns. What is given for one of them alone leaves the
/// other, where recipes or models stand if nothing is left.
PivotSettings chosen_pivot(PivotSettings suited, const PivotSettings& given);

/// Numbers by value and before words, "none" and "false" first of words.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace nibble::eval
