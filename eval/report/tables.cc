#include "eval/report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "core/text/estimate.h"
#include "core/text/json.h"
#include "eval/report/neighbours.h"
#include "eval/report/ranking.h"
#include "eval/report/svg.h"

namespace nibble::eval {
namespace {

std::string stars(double p) { return p < 0.001 ? "***" : p < 0.01 ? "**" : p < 0.05 ? "*" : ""; }

std::string loss_text(const Entry& entry) {
  if (entry.is_baseline) return "baseline";
  if (!entry.to_baseline) return "";
  return signed_estimate_text(entry.to_baseline->mean * 1e3, entry.to_baseline->standard_error * 1e3, 2) +
         stars(entry.adjusted_p);
}

std::string p_text(double p) { return p < 0.001 ? "< 0.001" : fmt::format("{:.3f}", p); }

Marks marks_of(const Ranking& ranking, const Entries& entries) {
  return marks_of(
      entries, [&](const Entry& entry) { return ranking.value(entry); },
      [&](const Entry& entry, const Entry& lowest) { return ranking.difference(entry, lowest); });
}

constexpr const char* kMarksExplained =
    " Bold: the lowest, where none other is within two standard errors of it (paired over windows; by Student's t "
    "where "
    "these are few). †: undecided, within two standard errors of the lowest.";

std::string joined(const SettingNames& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

TableCell word(std::string_view text) { return {.text = std::string(text), .detail = {}, .is_number = false}; }
TableCell numeric(std::string text) { return {.text = std::move(text), .detail = {}}; }

void warn_of_mixture(const Entries& entries, const char* key, std::vector<std::string>& warnings) {
  std::set<std::string_view> values;
  for (const Entry* entry : entries) values.insert(fact(entry->record.environment, key));
  if (values.size() < 2) return;
  std::string names;
  for (const std::string_view value : values)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", value.empty() ? "unknown" : value);
  warnings.push_back(
      fmt::format("results of {} different values of '{}' stand side by side: {}", values.size(), key, names));
}

nlohmann::json sample_of(const Entry& entry, const SettingNames& shown) {
  auto json = nlohmann::json::parse(fact(entry.record.configuration, "calibration"), nullptr, false);
  if (!json.is_object()) return json;
  json.erase("collected");  // follows from the recipe and mixes nothing
  for (const auto& [setting, key] : kCalibrationSettings)
    if (std::ranges::count(shown, setting) > 0) {
      json.erase(key);
      json.erase("windows_hash");  // follows from both
      // Of tokens the windows are the text: more of them are another. Files are told apart by where they lie.
      if (setting == kCalibrationSamples && is_cut_from_tokens(json)) {
        const auto source = fact_json(entry.record.sources, "calibration");
        json["text_hash"] = source.is_object() ? source.value("tokens", nlohmann::ordered_json()) : nullptr;
      }
    }
  return json;
}

std::string text_of(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// sample_of() but for the guide and the flavour, for cells without guided statistics or without Fisher sensitivities
// mix with all; nothing where there are no statistics.
std::optional<std::string> text_without_guide(const Entry& entry, const SettingNames& shown) {
  const std::string_view calibration = fact(entry.record.configuration, "calibration");
  if (calibration == "null" || calibration.empty()) return std::nullopt;
  nlohmann::json sample = sample_of(entry, shown);
  if (sample.is_object())
    for (const char* key : {"guide", "flavour"}) sample.erase(key);
  return text_of(sample);
}

}  // namespace

std::string calibration_sample(const Entry& entry, const SettingNames& shown) {
  return text_of(sample_of(entry, shown));
}

bool are_calibrated_alike(const Entry& a, const Entry& b, const SettingNames& shown) {
  const auto said = [](const Entry& entry) { return fact(entry.record.configuration, "calibration"); };
  if (said(a) == said(b)) return true;  // most pairs, of which there are many
  const auto agree = [](const auto& left, const auto& right) { return !left || !right || *left == *right; };
  return agree(text_without_guide(a, shown), text_without_guide(b, shown)) &&
         agree(recorded_guide(a.record), recorded_guide(b.record)) &&
         agree(recorded_flavour(a.record), recorded_flavour(b.record));
}

std::vector<std::string> mixture_warnings(const Entries& entries, const SettingNames& shown) {
  std::vector<std::string> warnings;
  std::map<std::string_view, std::set<std::string>> evaluations;  // by model: what was scored, and how
  std::map<std::string, std::set<std::string>> calibrations, guides, flavours;
  for (const Entry* entry : entries) {
    // The float model has no divergence from itself; its perplexity is of the same text all the same.
    evaluations[fact(entry->record.configuration, "model")].insert(scored_text(entry->record));
    const std::string model(fact(entry->record.configuration, "model"));
    if (const auto sample = text_without_guide(*entry, shown)) calibrations[model].insert(*sample);
    if (const auto guide = recorded_guide(entry->record)) guides[model].insert(*guide);
    if (const auto flavour = recorded_flavour(entry->record)) flavours[model].insert(*flavour);
  }
  const auto several = [](const auto& groups) {
    return std::any_of(groups.begin(), groups.end(), [](const auto& group) { return group.second.size() > 1; });
  };
  if (several(evaluations))
    warnings.emplace_back(
        "different evaluations (text, protocol, context, stride or BOS) stand side by side: their perplexities must "
        "not be compared");
  if (several(calibrations) || several(guides) || several(flavours))
    warnings.emplace_back("recipes were calibrated on different texts or settings");
  std::set<std::string_view> keys;
  for (const Entry* entry : entries)
    for (const auto& [name, value] : entry->record.environment) keys.insert(name);
  for (const std::string_view key : keys)
    if (key != "threads") warn_of_mixture(entries, std::string(key).c_str(), warnings);
  return warnings;
}

ReportTable pivot_table(const Pivot& pivot, const PivotSettings& settings) {
  const Ranking ranking = ranking_of(pivot.entries);
  ReportTable table;
  for (const auto& [name, value] : pivot.fixed)
    table.title += fmt::format("{}{}", table.title.empty() ? "" : ", ",
                               name == "model" || name == "evaluation" ? value
                               : value.empty()                         ? "no " + name
                                                                       : fmt::format("{} {}", name, value));
  if (table.title.empty()) table.title = ranking.by_divergence ? "KL divergence" : "Perplexity";
  table.caption =
      fmt::format("{} ± standard error, {} by {}.",
                  ranking.by_divergence ? "KL divergence from the float model in millinats per token" : "Perplexity",
                  joined(settings.rows), joined(settings.columns));
  bool has_losses = false;
  table.columns.push_back(joined(settings.rows));
  for (const std::string& column : pivot.column_names) {
    const bool is_bits =
        settings.columns == SettingNames{"bits"} || settings.columns == SettingNames{std::string(kWidthSetting)};
    const bool says_bits = is_bits && !column_of(pivot, column)[0]->setting(kWidthSetting).empty();
    table.columns.push_back(says_bits ? column + " bits" : column);
  }

  std::map<const Entry*, std::pair<bool, bool>> marked;
  for (const std::string& column : pivot.column_names) {
    const Entries in_column = column_of(pivot, column);
    const Marks marks = marks_of(ranking, in_column);
    for (const Entry* entry : in_column) marked[entry] = {marks.best.contains(entry), marks.undecided.contains(entry)};
  }
  for (const std::string& row_name : pivot.row_names) {
    std::vector<TableCell> row = {word(row_name)};
    for (const std::string& column : pivot.column_names) {
      const auto found = pivot.cells.find({row_name, column});
      if (found == pivot.cells.end()) {
        row.push_back(numeric("–"));
        continue;
      }
      const Entry& entry = *found->second;
      const auto [best, undecided] = marked[&entry];
      row.push_back({.text = ranking.text(entry), .detail = loss_text(entry), .is_best = best, .undecided = undecided});
      has_losses = has_losses || entry.to_baseline;
    }
    table.rows.push_back(std::move(row));
  }
  table.caption += kMarksExplained;
  if (has_losses)
    table.caption +=
        " Second line: loss over the baseline in millinats per token ± its paired standard error; *, **, ***: p < "
        "0.05, 0.01, 0.001 (two-sided, Holm-adjusted).";
  table.warnings = mixture_warnings(pivot.entries, settings.shown());
  return table;
}

ReportTable list_table(const Entries& entries) {
  const Ranking ranking = ranking_of(entries);
  ReportTable table{.title = "",
                    .caption = fmt::format("By {}.{}{}", ranking.name(), kMarksExplained, neighbours_text(entries)),
                    .columns = {"recipe", "bits/weight", "bits/weight, model", "model MB", "KL, millinats",
                                "KL over the lowest", "perplexity", "loss, millinats", "p (Holm)", "top-1 %"},
                    .rows = {},
                    .warnings = mixture_warnings(entries)};
  if (!entries.empty())
    table.title = fmt::format("{}, {}", entries[0]->setting("model"), entries[0]->setting("evaluation"));
  Entries sorted = entries;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Entry* a, const Entry* b) { return ranking.value(*a) < ranking.value(*b); });
  const Marks marks = marks_of(ranking, sorted);
  const auto lowest =
      std::find_if(sorted.begin(), sorted.end(), [](const Entry* entry) { return !is_float_model(*entry); });
  constexpr Ranking kPerplexity{.by_divergence = false}, kDivergence{.by_divergence = true};
  for (const Entry* entry : sorted) {
    const CellMeasures& measures = *entry->record.measures;
    const auto& divergence = measures.divergence;
    TableCell kl = numeric(divergence ? kDivergence.text(*entry) : ""), perplexity = numeric(kPerplexity.text(*entry));
    TableCell& ranked = ranking.by_divergence ? kl : perplexity;
    ranked.is_best = marks.best.contains(entry);
    ranked.undecided = marks.undecided.contains(entry);
    const auto over = ranking.by_divergence && lowest != sorted.end() && *lowest != entry
                          ? ranking.difference(*entry, **lowest)
                          : std::nullopt;
    table.rows.push_back({word(entry->setting("recipe")), numeric(fmt::format("{:.3f}", measures.bits_per_weight)),
                          numeric(fmt::format("{:.3f}", measures.model_bits_per_weight)),
                          numeric(fmt::format("{:.2f}", static_cast<double>(measures.model_bytes) * 1e-6)),
                          std::move(kl), numeric(over ? millinat_difference(*over) : ""), std::move(perplexity),
                          numeric(loss_text(*entry)), numeric(entry->to_baseline ? p_text(entry->adjusted_p) : ""),
                          numeric(divergence ? fmt::format("{:.1f}", divergence->top1_agreement * 100.0) : "")});
  }
  // Columns that nobody filled say nothing.
  for (std::size_t c = table.columns.size(); c-- > 1;) {
    if (!std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return row[c].text.empty(); }))
      continue;
    table.columns.erase(table.columns.begin() + static_cast<std::ptrdiff_t>(c));
    for (auto& row : table.rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
  }
  return table;
}

ReportTable failed_table(const std::vector<Entry>& failed) {
  ReportTable table{.title = "Cells that failed",
                    .caption = "",
                    .columns = {"model", "evaluation", "recipe", "why"},
                    .rows = {},
                    .warnings = {}};
  for (const Entry& entry : failed) {
    const auto& error = entry.record.error;
    table.rows.push_back({word(entry.setting("model")), word(entry.setting("evaluation")),
                          word(entry.setting("recipe")),
                          word(error ? fmt::format("{}: {}", error->kind, error->message) : "")});
  }
  return table;
}

ReportTable storage_table(const StorageSection& section) {
  ReportTable table{
      .title = fmt::format("{}: {}", section.model, section.stream),
      .caption = fmt::format("Entropy {:.3f} bits per value. Ratios of the stored (packed) size to the "
                             "compressed one; best: over all transforms; every round trip verified; MB/s "
                             "of stored bytes on one core.",
                             section.entropy),
      .columns = {"compressor", "ratio as stored", "best ratio", "bits/value", "after", "in MB/s", "out MB/s"},
      .rows = {},
      .warnings = {}};
  const auto best = std::max_element(section.rows.begin(), section.rows.end(),
                                     [](const StorageRow& a, const StorageRow& b) { return a.ratio < b.ratio; });
  for (auto row = section.rows.begin(); row != section.rows.end(); ++row) {
    TableCell ratio = numeric(fmt::format("{:.4f}", row->ratio));
    ratio.is_best = row == best;
    table.rows.push_back({word(row->codec), numeric(fmt::format("{:.4f}", row->plain_ratio)), std::move(ratio),
                          numeric(fmt::format("{:.3f}", row->bits_per_value)), word(row->transform),
                          numeric(short_number(row->compress_rate)), numeric(short_number(row->decompress_rate))});
  }
  return table;
}

ReportTable environment_table(const Entries& entries) {
  std::map<Facts, std::size_t> environments;
  for (const Entry* entry : entries) ++environments[entry->record.environment];
  ReportTable table{
      .title = "Environment", .caption = "", .columns = {"what", "value", "cells"}, .rows = {}, .warnings = {}};
  for (const auto& [environment, count] : environments)
    for (const auto& [name, value] : environment)
      table.rows.push_back({word(name), word(value), numeric(std::to_string(count))});
  return table;
}

ReportTable command_table(const Entries& entries) {
  ReportTable table{.title = "Commands",
                    .caption = "What repeats each cell.",
                    .columns = {"record", "recipe", "command"},
                    .rows = {},
                    .warnings = {}};
  for (const Entry* entry : entries) {
    if (entry->record.command.empty()) continue;  // not a sweep's
    table.rows.push_back(
        {word(entry->record.id.substr(0, 8)), word(entry->setting("recipe")), word(entry->record.command)});
  }
  return table;
}

}  // namespace nibble::eval
