#include "eval/report/pivot.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/text/suggest.h"
#include "eval/report/evaluation_way.h"

namespace nibble::eval {
namespace {

// Names for people that follow from other settings, or say nothing of their own.
bool is_label(std::string_view name) {
  return name == "model" || name == "recipe" || name == "evaluation" || name == "use";
}

// Of an evaluation: where it comes from is named by the label.
bool is_fingerprint(std::string_view name) {
  return name.find("hash") != std::string_view::npos || name.find("fingerprint") != std::string_view::npos ||
         name == "tokens" || name == "text" || name == "tokenizer" || name == "seed";
}

bool is_off(std::string_view value) { return value.empty() || value == "none" || value == "false" || value == "0"; }

std::optional<double> number(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool contains(const SettingNames& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

using Groups = std::vector<Entries>;

// By the value of `name`, in natural order.
Groups split(const Entries& entries, const std::string& name) {
  std::map<std::string_view, Entries, decltype(&natural_less)> groups(&natural_less);
  for (const Entry* entry : entries) groups[entry->setting(name)].push_back(entry);
  Groups result;
  for (auto& [value, group] : groups) result.push_back(std::move(group));
  return result;
}

// Lets the recipe's name stand for the settings that the entry lacks, first of all; false where it has them all.
bool put_name_for_lacking(const Entry& entry, SettingNames& names) {
  if (std::erase_if(names, [&](const std::string& name) { return entry.setting(name).empty(); }) == 0) return false;
  names.insert(names.begin(), "recipe");
  return true;
}

// The headings of an entry's row and column. A given checkpoint has no settings by which it could be found, or told
// from another one: its name stands in its row, or, where the row says something else, in its column.
std::pair<std::string, std::string> place_of(const Entry& entry, SettingNames rows, SettingNames columns) {
  const bool named = contains(rows, "recipe") || contains(columns, "recipe");
  if (!named && entry.is_given_checkpoint() && !put_name_for_lacking(entry, rows)) put_name_for_lacking(entry, columns);
  return {heading(entry, rows), heading(entry, columns)};
}

// A setting by which two entries that fall into one cell can be told apart; or nothing. `clash` says whether there are
// such entries at all.
std::optional<std::string> separating_setting(const Pivot& pivot, const SettingNames& rows, const SettingNames& columns,
                                              bool& clash) {
  std::map<std::pair<std::string, std::string>, const Entry*> seen;
  clash = false;
  for (const Entry* entry : pivot.entries) {
    const auto [place, is_new] = seen.emplace(place_of(*entry, rows, columns), entry);
    if (is_new) continue;
    clash = true;
    for (const std::string& name : varying_settings({place->second, entry}))
      if (name != "recipe") return name;
    if (place->second->setting("recipe") != entry->setting("recipe")) return "recipe";
  }
  return std::nullopt;
}

void place(Pivot& pivot, const SettingNames& rows, const SettingNames& columns) {
  std::set<std::string_view> row_seen, column_seen;
  for (const Entry* entry : pivot.entries) {
    auto [row, column] = place_of(*entry, rows, columns);
    if (std::find(pivot.row_names.begin(), pivot.row_names.end(), row) == pivot.row_names.end())
      pivot.row_names.push_back(row);
    if (std::find(pivot.column_names.begin(), pivot.column_names.end(), column) == pivot.column_names.end())
      pivot.column_names.push_back(column);
    pivot.cells.emplace(std::pair(std::move(row), std::move(column)), entry);
  }
  std::stable_sort(pivot.column_names.begin(), pivot.column_names.end(), natural_less);
  std::map<std::string_view, const Entry*> first;  // of each row, for its values
  for (const auto& [place, entry] : pivot.cells) first.emplace(place.first, entry);
  std::stable_sort(pivot.row_names.begin(), pivot.row_names.end(), [&](const std::string& a, const std::string& b) {
    for (const std::string& name : rows) {
      const std::string_view left = first.at(a)->setting(name), right = first.at(b)->setting(name);
      if (left != right) return natural_less(left, right);
    }
    return natural_less(a, b);  // names of given checkpoints
  });
}

// Whether a setting differs only in that some entries do not have it, as `sign` without scaling: then others say as
// much.
bool varies_by_absence(const Entries& entries, const std::string& name) {
  std::set<std::string_view> values;
  for (const Entry* entry : entries) values.insert(entry->setting(name));
  return values.size() == 2 && values.contains("");
}

std::size_t count_distinct(const Entries& entries, const SettingNames& names) {
  std::set<std::string> seen;
  for (const Entry* entry : entries) {
    std::string key;
    for (const std::string& name : names) key += fmt::format("{}\n", entry->setting(name));
    seen.insert(std::move(key));
  }
  return seen.size();
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  const auto key = [](std::string_view text) {
    const auto value = number(text);
    return std::tuple(value ? 0 : is_off(text) ? 1 : 2, value.value_or(0.0), text);
  };
  return key(a) < key(b);
}

void check_setting_names(const Entries& entries, const SettingNames& names) {
  std::set<std::string_view> known{kWidthSetting};
  for (const Entry* entry : entries)
    for (const auto& [name, value] : entry->settings) known.insert(name);
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  for (const std::string& name : names)
    NIBBLE_REQUIRE(known.contains(name), InvalidArgument, "no cell has a setting '{}'{}", name,
                   did_you_mean(name, candidates));
}

SettingNames varying_settings(const Entries& entries) {
  SettingNames names;
  for (const Entry* entry : entries)
    for (const auto& [name, value] : entry->settings)
      if (!contains(names, name) && !is_fingerprint(name)) names.push_back(name);
  std::erase_if(names, [&](const std::string& name) {
    return std::all_of(entries.begin(), entries.end(),
                       [&](const Entry* entry) { return entry->setting(name) == entries[0]->setting(name); });
  });
  return names;
}

SettingNames telling_settings(const Entries& entries) {
  SettingNames names = varying_settings(entries);
  std::erase(names, "recipe");
  const std::size_t distinct = count_distinct(entries, names);
  for (const std::string& name : SettingNames(names)) {
    if (!varies_by_absence(entries, name)) continue;
    SettingNames fewer = names;
    std::erase(fewer, name);
    if (count_distinct(entries, fewer) == distinct) names = std::move(fewer);
  }
  return names;
}

SettingNames full_names(const Entries& entries, SettingNames names) {
  const auto is_known = [&](const std::string& name) {
    return std::ranges::any_of(entries, [&](const Entry* entry) { return !entry->setting(name).empty(); });
  };
  for (std::string& name : names)
    if (const std::string full = "calibration." + name; !is_known(name) && is_known(full)) name = full;
  return names;
}

std::string heading(const Entry& entry, const SettingNames& names) {
  if (names.size() == 1) {
    const std::string_view value = entry.setting(names[0]);
    return std::string(value.empty() ? "–" : value);
  }
  std::string text;
  for (const std::string& name : names) {
    const std::string_view value = entry.setting(name);
    if (name == kCalibrationSeed ? value.empty() : is_off(value)) continue;  // draw 0 is one among others
    if (!text.empty()) text += " + ";
    text += value == "true" ? name : fmt::format("{} {}", name, value);
  }
  return text.empty() ? (names.empty() ? "" : "none") : text;
}

std::vector<Pivot> make_pivots(const Entries& entries, const SettingNames& rows, const SettingNames& columns) {
  check_setting_names(entries, rows);
  check_setting_names(entries, columns);
  for (const std::string& name : PivotSettings{rows, columns}.shown())
    NIBBLE_REQUIRE(std::ranges::count(rows, name) + std::ranges::count(columns, name) == 1, InvalidArgument,
                   "'{}' is named twice; expected each setting once, in rows or in columns", name);
  std::vector<Pivot> open, done;
  Groups groups = {entries};
  std::vector<std::string> always;
  for (const char* name : {"model", "evaluation"})
    if (!contains(rows, name) && !contains(columns, name)) always.emplace_back(name);
  for (const std::string& name : always) {
    Groups finer;
    for (const Entries& group : groups)
      for (Entries& part : split(group, name)) finer.push_back(std::move(part));
    groups = std::move(finer);
  }
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    Pivot pivot;
    pivot.entries = std::move(*group);
    if (pivot.entries.empty()) continue;
    for (const std::string& name : always) pivot.fixed.emplace_back(name, pivot.entries[0]->setting(name));
    open.push_back(std::move(pivot));
  }
  while (!open.empty()) {
    Pivot pivot = std::move(open.back());
    open.pop_back();
    bool clash = false;
    const auto separating = separating_setting(pivot, rows, columns, clash);
    if (!clash) {
      place(pivot, rows, columns);
      done.push_back(std::move(pivot));
      continue;
    }
    Groups parts;
    if (separating) {
      parts = split(pivot.entries, *separating);
    } else {  // twins: the first of each cell stays
      parts.resize(2);
      std::set<std::pair<std::string, std::string>> taken;
      for (const Entry* entry : pivot.entries)
        parts[taken.insert(place_of(*entry, rows, columns)).second ? 0 : 1].push_back(entry);
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      Pivot finer;
      finer.fixed = pivot.fixed;
      if (separating) finer.fixed.emplace_back(*separating, (*part)[0]->setting(*separating));
      finer.entries = std::move(*part);
      open.push_back(std::move(finer));
    }
  }
  return done;
}

Entries column_of(const Pivot& pivot, const std::string& column) {
  Entries entries;
  for (const auto& [place, entry] : pivot.cells)
    if (place.second == column) entries.push_back(entry);
  return entries;
}

SettingNames PivotSettings::shown() const {
  SettingNames names = rows;
  names.insert(names.end(), columns.begin(), columns.end());
  return names;
}

PivotSettings default_pivot(const Entries& entries) {
  PivotSettings settings{.rows = {"recipe"}, .columns = {"model"}};
  Entries with_settings;  // that a given checkpoint has none says nothing of what tells the others apart
  std::ranges::copy_if(entries, std::back_inserter(with_settings),
                       [](const Entry* entry) { return !entry->is_given_checkpoint(); });
  SettingNames telling = telling_settings(with_settings);
  const auto of_evaluation = [&](const std::string& name) {
    return is_label(name) || is_evaluation_way(name) || name == "bits" || name == "max_tokens" || name == "divergence";
  };
  const auto has_budget = [](const Entry* entry) { return !entry->setting("budget").empty(); };
  const bool bits_vary = contains(varying_settings(with_settings), "bits");
  std::erase_if(telling, of_evaluation);
  if (!telling.empty() && std::ranges::any_of(with_settings, has_budget)) {
    // A budget's bits are the column's; rows say them too where another cell has as many without one.
    const auto places = [&](SettingNames names) {
      names.emplace_back(kWidthSetting);
      return count_distinct(with_settings, names);
    };
    SettingNames rows = telling;
    std::erase(rows, "budget");
    if (!rows.empty() && places(rows) == places(telling)) telling = rows;
    settings = {.rows = telling, .columns = {std::string(kWidthSetting)}};
  } else if (!telling.empty() && bits_vary) {
    settings = {.rows = telling, .columns = {"bits"}};
  }
  return settings;
}

PivotSettings chosen_pivot(PivotSettings suited, const PivotSettings& given) {
  const auto choose = [](SettingNames& names, const SettingNames& own, const SettingNames& others,
                         std::initializer_list<const char*> last) {
    if (!own.empty()) {
      names = own;
      return;
    }
    std::erase_if(names, [&](const std::string& name) { return contains(others, name); });
    for (const std::string name : last)
      if (names.empty() && !contains(others, name)) names.push_back(name);
  };
  choose(suited.rows, given.rows, given.columns, {"recipe", "model", "evaluation"});
  choose(suited.columns, given.columns, given.rows, {"model", "recipe", "evaluation"});
  return suited;
}

}  // namespace nibble::eval
