#include "eval/report/spread.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/text/estimate.h"
#include "eval/report/ranking.h"
#include "eval/report/tables.h"

namespace nibble::eval {
namespace {

using Draws = std::map<std::string_view, const Entry*>;  // by the value of the setting

// Cells that differ in `over` alone share this. Names are left out, for a recipe's may say the value, and so is what
// was calibrated, which follows from it.
std::string key_without(const Entry& entry, const std::string& over) {
  std::string key =
      fmt::format("{}\n{}\n{}", entry.comparable_key(), calibration_sample(entry, {over}), entry.rest_of_recipe());
  for (const auto& [name, value] : entry.settings)
    if (name != over && name != "recipe") key += fmt::format("\n{} {}", name, value);
  return key;
}

struct Spread {
  Entries firsts = {};                             // of each group
  std::map<const Entry*, Draws> draws = {};        // by these
  std::map<const Entry*, std::size_t> twins = {};  // more cells of one value, of an earlier version, say
};

Spread spread_of(const Entries& entries, const std::string& over) {
  Spread spread;
  std::map<std::string, const Entry*> first;
  for (const Entry* entry : entries) {
    const auto [place, is_new] = first.emplace(key_without(*entry, over), entry);
    if (is_new) spread.firsts.push_back(entry);
    if (!spread.draws[place->second].emplace(entry->setting(over), entry).second) ++spread.twins[place->second];
  }
  return spread;
}

double mean_of(const Ranking& ranking, const Draws& draws) {
  double sum = 0.0;
  for (const auto& [value, entry] : draws) sum += ranking.value(*entry);
  return sum / static_cast<double>(draws.size());
}

std::string text_of(const Ranking& ranking, const Draws& draws) {
  const double mean = mean_of(ranking, draws);
  if (!std::isfinite(mean)) return "not finite";
  if (draws.size() == 1) return fmt::format("{:.3f} (one)", mean);
  double squares = 0.0;
  for (const auto& [value, entry] : draws) squares += std::pow(ranking.value(*entry) - mean, 2);
  return estimate_text(mean, std::sqrt(squares / static_cast<double>(draws.size() - 1)), 3);
}

// Over the values that both have.
std::optional<PairedDifference> difference(const Ranking& ranking, const Draws& a, const Draws& b) {
  std::vector<double> left, right;
  for (const auto& [value, entry] : a)
    if (const auto other = b.find(value); other != b.end()) {
      left.push_back(ranking.value(*entry));
      right.push_back(ranking.value(*other->second));
    }
  return paired_difference(left, right);
}

// Of a column: what competes, by means and paired differences, and of how many pairs these are.
void mark_column(const Ranking& ranking, const Spread& spread, const Entries& column,
                 std::map<const Entry*, TableCell>& cells, std::set<std::size_t>& pairs) {
  const auto more = [&](const Entry& entry, const Entry& lowest) {
    return difference(ranking, spread.draws.at(&entry), spread.draws.at(&lowest));
  };
  const Marks marks = marks_of(
      column, [&](const Entry& entry) { return mean_of(ranking, spread.draws.at(&entry)); }, more);
  for (const auto& [entry, lowest] : marks.lowest) {
    TableCell& cell = cells[entry];
    cell.is_best = marks.best.contains(entry);
    cell.undecided = marks.undecided.contains(entry);
    if (entry == lowest) {
      cell.detail = marks.by_chance.contains(entry) ? "the lowest mean, of other draws" : "the lowest";
    } else if (const auto found = more(*entry, *lowest)) {
      pairs.insert(found->pairs);
      cell.detail = signed_estimate_text(found->mean, found->standard_error, 3);
    }
  }
}

// What all names begin with, up to where a part after a comma differs: "best" of "best, seed 0" and "best, seed 1".
// Empty where that is nothing.
std::string common_name(const std::set<std::string_view>& names) {
  std::string_view common = *names.begin();
  for (const std::string_view name : names) {
    const auto [end, other] = std::ranges::mismatch(common, name);
    common = common.substr(0, static_cast<std::size_t>(end - common.begin()));
  }
  if (names.size() == 1) return std::string(common);
  const std::size_t comma = common.rfind(", ");
  return std::string(common.substr(0, comma == std::string_view::npos ? 0 : comma));
}

// Rows of recipes are named after the first draw; what tells draws apart is left out where names stay different.
void name_rows(const Pivot& pivot, const Spread& spread, ReportTable& table) {
  std::vector<std::string> common;
  for (const std::string& row : pivot.row_names) {
    std::set<std::string_view> names;
    for (const auto& [place, first] : pivot.cells)
      if (place.first == row)
        for (const auto& [value, entry] : spread.draws.at(first)) names.insert(entry->setting("recipe"));
    common.push_back(common_name(names));
  }
  for (std::size_t r = 0; r < common.size(); ++r)
    if (!common[r].empty() && std::ranges::count(common, common[r]) == 1) table.rows[r][0].text = common[r];
}

const char* plural(std::size_t count) { return count == 1 ? "" : "s"; }

ReportTable spread_table(const Pivot& pivot, const Spread& spread, const std::string& over,
                         const PivotSettings& settings) {
  Entries all;
  std::set<std::string_view> values;
  std::size_t twins = 0;
  for (const Entry* first : pivot.entries) {
    if (const auto found = spread.twins.find(first); found != spread.twins.end()) twins += found->second;
    const Draws& draws = spread.draws.at(first);
    for (const auto& [value, entry] : draws) {
      all.push_back(entry);
      // Empty is a default that a recipe leaves out, or, alone, says that the setting has no meaning there.
      if (!value.empty() || draws.size() > 1) values.insert(value);
    }
  }
  const Ranking ranking = ranking_of(all);
  ReportTable table = pivot_table(pivot, settings);
  table.title += table.title.empty() ? "" : ", ";
  table.title += values.empty() ? fmt::format("without {}", over)
                                : fmt::format("over {} value{} of {}", values.size(), plural(values.size()), over);
  table.caption = fmt::format(
      "{}, mean ± standard deviation over {}. Second line: difference from the lowest of the column, paired over the "
      "values that both have, ± its standard error. Bold: the lowest, where none other is undecided beside it; †: "
      "undecided, by Student's t as likely by chance as what is within two standard errors of many values.",
      ranking.by_divergence ? "KL divergence from the float model in millinats per token" : "Perplexity", over);
  std::map<const Entry*, TableCell> cells;
  std::set<std::size_t> pairs;
  for (const Entry* first : pivot.entries) cells[first].text = text_of(ranking, spread.draws.at(first));
  for (const std::string& column : pivot.column_names)
    mark_column(ranking, spread, column_of(pivot, column), cells, pairs);
  for (const std::size_t count : pairs)
    table.caption +=
        fmt::format(" {} pairs have {} degree{} of freedom: undecided is what is within {:.2f} standard errors.", count,
                    count - 1, plural(count - 1), undecided_within(count));
  for (std::size_t r = 0; r < pivot.row_names.size(); ++r)
    for (std::size_t c = 0; c < pivot.column_names.size(); ++c)
      if (const auto found = pivot.cells.find({pivot.row_names[r], pivot.column_names[c]}); found != pivot.cells.end())
        table.rows[r][c + 1] = cells.at(found->second);
  if (settings.rows == SettingNames{"recipe"}) name_rows(pivot, spread, table);
  SettingNames shown = settings.shown();
  shown.push_back(over);
  table.warnings = mixture_warnings(all, shown);
  if (twins > 0)
    table.warnings.push_back(
        fmt::format("{} more with the settings and the {} of another cell: the first counts", twins, over));
  return table;
}

bool has_spread(const Spread& spread) {
  return std::ranges::any_of(spread.draws, [](const auto& group) { return group.second.size() > 1; });
}

// "; they do in calibration.seed, bits", for a message.
std::string other_settings(const Entries& entries) {
  std::string text;
  for (const std::string& name : varying_settings(entries))
    if (name != "recipe" && has_spread(spread_of(entries, name)))
      text += fmt::format("{} {}", text.empty() ? "; they do in" : ",", name);
  return text;
}

}  // namespace

std::vector<ReportTable> spread_tables(const Entries& entries, const std::string& over, const PivotSettings& settings) {
  Entries quantized;
  std::ranges::copy_if(entries, std::back_inserter(quantized), [](const Entry* e) { return !is_float_model(*e); });
  check_setting_names(entries, {over});
  const Spread spread = spread_of(quantized, over);
  NIBBLE_REQUIRE(has_spread(spread), InvalidArgument, "--over {}: no two cells differ in it alone{}", over,
                 other_settings(quantized));
  for (const auto* names : {&settings.rows, &settings.columns})
    NIBBLE_REQUIRE(std::ranges::count(*names, over) == 0, InvalidArgument,
                   "--over {}: what makes rows or columns cannot be taken together", over);
  PivotSettings suited = default_pivot(spread.firsts);
  for (auto* names : {&suited.rows, &suited.columns}) std::erase(*names, over);
  const PivotSettings chosen = chosen_pivot(std::move(suited), settings);
  std::vector<ReportTable> tables;
  for (const Pivot& pivot : make_pivots(spread.firsts, chosen.rows, chosen.columns))
    tables.push_back(spread_table(pivot, spread, over, chosen));
  return tables;
}

}  // namespace nibble::eval
