#include "eval/report/build_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "core/error.h"
#include "eval/report/figures.h"
#include "eval/report/ranking.h"
#include "eval/report/spread.h"
#include "eval/report/tables.h"

namespace nibble::eval {
namespace {

// Layers are shown of the best cell of each width, of so many models and evaluations: the rest is in the records.
constexpr std::size_t kMaxLayerGroups = 4, kMaxWidths = 3;

std::vector<Entries> comparable_groups(const Entries& entries) {
  std::vector<Entries> groups;
  for (const Entry* entry : entries) {
    const auto place = std::find_if(groups.begin(), groups.end(), [&](const Entries& group) {
      return group[0]->comparable_key() == entry->comparable_key();
    });
    if (place == groups.end()) {
      groups.push_back({entry});
    } else {
      place->push_back(entry);
    }
  }
  return groups;
}

std::string place_of(const Entries& group) {
  const std::string_view use = group[0]->setting("use");
  return fmt::format("{}, {}{}{}", group[0]->setting("model"), group[0]->setting("evaluation"),
                     use.empty() ? "" : ": text for ", use);
}

void add(Section& section, std::optional<Figure> figure, const std::string& place) {
  if (!figure) return;
  figure->title = fmt::format("{} ({})", figure->title, place);
  section.items.emplace_back(std::move(*figure));
}

// The best quantized entry of each width, narrowest last.
Entries best_by_bits(const Entries& group) {
  const Ranking ranking = ranking_of(group);
  std::map<std::string_view, const Entry*, decltype(&natural_less)> best(&natural_less);
  for (const Entry* entry : group) {
    if (entry->record.measures->tensors.empty() || !std::isfinite(ranking.value(*entry))) continue;
    const Entry*& place = best[entry->setting(kWidthSetting)];
    if (place == nullptr || ranking.value(*entry) < ranking.value(*place)) place = entry;
  }
  Entries entries;
  for (auto place = best.rbegin(); place != best.rend() && entries.size() < kMaxWidths; ++place)
    entries.push_back(place->second);
  return entries;
}

std::string summary_of(const ReportInput& input) {
  std::set<std::string_view> models, evaluations;
  for (const auto* entries : {&input.entries, &input.speeds}) {
    for (const Entry& entry : *entries) {
      models.insert(entry.setting("model"));
      evaluations.insert(entry.setting("evaluation"));
    }
  }
  const auto counted = [](std::size_t count, const char* noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  };
  std::string text = fmt::format("{} of {}, {}.", counted(input.entries.size() + input.speeds.size(), "cell"),
                                 counted(models.size(), "model"), counted(evaluations.size(), "evaluation"));
  if (!input.failed.empty()) text += fmt::format(" {} failed.", counted(input.failed.size(), "cell"));
  return text;
}

Section published_section(const PublishedFigures& published, const Entries& cells) {
  Section section{.title = "Beside published figures", .items = {}};
  if (const ExpectedCount count = count_expected(published, cells); count.expects())
    section.items.emplace_back(Paragraph{expected_text(count) + "."});
  for (ReportTable& table : published_tables(published, cells)) section.items.emplace_back(std::move(table));
  return section;
}

Section spread_section(const Entries& all, const ReportOptions& options) {
  const std::string over = full_names(all, {options.over})[0];
  Section section{.title = "Quality over " + over, .items = {}};
  const PivotSettings given{.rows = full_names(all, options.rows), .columns = full_names(all, options.columns)};
  for (ReportTable& table : spread_tables(all, over, given)) section.items.emplace_back(std::move(table));
  return section;
}

Section quality_section(const Entries& all, const ReportOptions& options) {
  // The float model has no settings: it is the baseline, and a line in figures and lists.
  Entries quantized;
  std::copy_if(all.begin(), all.end(), std::back_inserter(quantized),
               [](const Entry* entry) { return !is_float_model(*entry); });
  const PivotSettings pivot =
      chosen_pivot(default_pivot(quantized.empty() ? all : quantized),
                   {.rows = full_names(all, options.rows), .columns = full_names(all, options.columns)});
  const Entries& pivoted = quantized.empty() || pivot.rows == SettingNames{"recipe"} ? all : quantized;
  Section section{.title = "Quality", .items = {}};
  for (const Pivot& part : make_pivots(pivoted, pivot.rows, pivot.columns))
    section.items.emplace_back(pivot_table(part, pivot));
  return section;
}

Section figures_section(const std::vector<Entries>& groups) {
  Section section{.title = "Figures", .items = {}};
  for (const Entries& group : groups) {
    for (Figure& figure : pareto_figures(group)) add(section, std::move(figure), place_of(group));
    add(section, modification_figure(group), place_of(group));
  }
  return section;
}

Section layers_section(const std::vector<Entries>& groups) {
  Section section{.title = "Layers", .items = {}};
  for (std::size_t g = 0; g < std::min(groups.size(), kMaxLayerGroups); ++g)
    for (const Entry* entry : best_by_bits(groups[g])) {
      add(section, layer_figure(*entry), place_of(groups[g]));
      add(section, palette_figure(*entry), place_of(groups[g]));
    }
  if (!section.items.empty())
    section.items.insert(
        section.items.begin(),
        Paragraph{"Of the cell with the lowest figure of each width. The records hold the same of every cell."});
  return section;
}

Section list_section(const std::vector<Entries>& groups) {
  Section section{.title = "All cells", .items = {}};
  for (const Entries& group : groups) section.items.emplace_back(list_table(group));
  return section;
}

Section speed_section(const Entries& speeds) {
  Section section{.title = "Speed", .items = {}};
  if (auto figure = speed_figure(speeds)) {
    section.items.emplace_back(std::move(*figure));
  } else {
    section.items.emplace_back(speed_table(speeds));
  }
  return section;
}

Section storage_section(const std::vector<StorageSection>& storage) {
  Section section{.title = "Storage", .items = {}};
  for (const StorageSection& one : storage) section.items.emplace_back(storage_table(one));
  return section;
}

}  // namespace

Report build_report(const ReportInput& input, const ReportOptions& options) {
  NIBBLE_REQUIRE(!input.entries.empty() || !input.failed.empty() ||
                     !(options.published || !options.over.empty() || !options.rows.empty() || !options.columns.empty()),
                 InvalidArgument,
                 "--rows, --columns, --over and --published are about cells that measure quality, and there are none");
  Report report;
  report.title = options.title;
  report.summary = summary_of(input);
  for (const std::string& problem : input.problems) report.warnings.push_back("passed over: " + problem);
  report.warnings.insert(report.warnings.end(), input.warnings.begin(), input.warnings.end());
  Entries cells, speeds;
  for (const Entry& entry : input.entries) cells.push_back(&entry);
  Entries all = cells;
  for (const Entry& entry : input.pooled) all.push_back(&entry);
  for (const Entry& entry : input.speeds) speeds.push_back(&entry);

  const auto add_if_any = [&](Section section) {
    if (!section.items.empty()) report.sections.push_back(std::move(section));
  };
  if (!all.empty()) {
    if (options.published) report.sections.push_back(published_section(*options.published, cells));
    if (!options.over.empty()) report.sections.push_back(spread_section(all, options));
    report.sections.push_back(quality_section(all, options));
    const std::vector<Entries> groups = comparable_groups(all);
    add_if_any(figures_section(groups));
    add_if_any(layers_section(groups));
    report.sections.push_back(list_section(groups));
  }
  if (!speeds.empty()) report.sections.push_back(speed_section(speeds));
  if (!input.failed.empty()) report.sections.push_back({.title = "Failures", .items = {failed_table(input.failed)}});
  if (!input.storage.empty()) report.sections.push_back(storage_section(input.storage));
  cells.insert(cells.end(), speeds.begin(), speeds.end());
  if (!cells.empty())
    report.sections.push_back(
        {.title = "Environment and commands", .items = {environment_table(cells), command_table(cells)}});
  return report;
}

}  // namespace nibble::eval
