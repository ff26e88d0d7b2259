#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/text/estimate.h"
#include "eval/report/published.h"
#include "eval/report/tables.h"

namespace nibble::eval {
namespace {

void add_once(std::vector<std::string>& names, std::string_view name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
}

bool is_comparable(const PublishedTable& table, const Entry& entry) {
  return entry.setting("evaluation").starts_with(table.evaluation);
}

// The range holds for one protocol: the first thousand tokens of a text have another perplexity than all of it.
bool is_judged(const PublishedTable& table, const PublishedFigure& figure, const Entry& entry) {
  return figure.expected && is_comparable(table, entry) && fact(entry.record.labels, "model") == figure.model &&
         entry.setting("recipe") == figure.recipe &&
         (table.expected_for.empty() || entry.setting("evaluation") == table.expected_for);
}

std::string verdict(const ExpectedRange& range, double perplexity) {
  if (range.contains(perplexity)) return "inside";
  return perplexity < range.low ? "outside (below)" : "outside";  // not a number is outside, too
}

TableCell cell_of(const PublishedTable& table, const Entry* entry, const PublishedFigure* figure) {
  TableCell cell{.text = "–", .detail = {}};
  const double measured = entry != nullptr ? entry->record.measures->perplexity : 0.0;
  if (entry != nullptr) {
    cell.text = fmt::format("{:.4f}", measured);
    if (const auto& error = entry->record.measures->perplexity_stderr) cell.text += fmt::format(" ± {:.2f}", *error);
  }
  if (figure == nullptr) return cell;
  if (figure->perplexity) {
    cell.detail = fmt::format("published {}", *figure->perplexity);
    if (entry != nullptr)
      cell.detail += fmt::format(", difference {}", signed_number(measured - *figure->perplexity, 4));
  }
  if (figure->expected) {
    cell.detail += fmt::format("{}expected {} to {}", cell.detail.empty() ? "" : "; ", figure->expected->low,
                               figure->expected->high);
    if (entry != nullptr)
      cell.detail +=
          ": " + (is_judged(table, *figure, *entry) ? verdict(*figure->expected, measured) : "of another evaluation");
  }
  return cell;
}

std::string caption_of(const PublishedFigures& published, const PublishedTable& table) {
  std::string text =
      "Perplexity measured here ± its standard error; below it, what was published and the difference, and in which "
      "range the measured figure was expected. Source: " +
      published.source;
  if (!table.expected_for.empty()) text += fmt::format(" Ranges are for the evaluation “{}”.", table.expected_for);
  if (!table.why.empty()) text += " Where the ranges come from: " + table.why;
  return text;
}

}  // namespace

std::vector<ReportTable> published_tables(const PublishedFigures& published, const Entries& entries) {
  std::vector<ReportTable> tables;
  for (const PublishedTable& source : published.tables) {
    std::vector<std::string> recipes, models;
    for (const PublishedFigure& figure : source.figures) {
      add_once(recipes, figure.recipe);
      add_once(models, figure.model);
    }
    Entries used;
    for (const Entry* entry : entries) {
      if (!is_comparable(source, *entry)) continue;
      if (std::find(recipes.begin(), recipes.end(), entry->setting("recipe")) == recipes.end()) continue;
      add_once(models, fact(entry->record.labels, "model"));
      used.push_back(entry);
    }
    // Where several evaluations begin alike, the one that ranges hold for comes before a first trial of it.
    std::stable_partition(used.begin(), used.end(),
                          [&](const Entry* entry) { return entry->setting("evaluation") == source.expected_for; });
    ReportTable table{.title = fmt::format("{}: {}", published.title, source.title),
                      .caption = caption_of(published, source),
                      .columns = {"recipe"},
                      .rows = {},
                      .warnings = mixture_warnings(used)};
    table.columns.insert(table.columns.end(), models.begin(), models.end());
    for (const std::string& recipe : recipes) {
      std::vector<TableCell> row = {{.text = recipe, .detail = {}, .is_number = false}};
      for (const std::string& model : models) {
        const auto entry = std::find_if(used.begin(), used.end(), [&](const Entry* candidate) {
          return candidate->setting("recipe") == recipe && fact(candidate->record.labels, "model") == model;
        });
        const auto figure = std::find_if(source.figures.begin(), source.figures.end(), [&](const PublishedFigure& f) {
          return f.recipe == recipe && f.model == model;
        });
        row.push_back(cell_of(source, entry == used.end() ? nullptr : *entry,
                              figure == source.figures.end() ? nullptr : &*figure));
      }
      table.rows.push_back(std::move(row));
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

ExpectedCount count_expected(const PublishedFigures& published, const Entries& entries) {
  std::map<std::tuple<std::string, std::string, std::string>, bool> cells;  // whether measured
  std::map<const Entry*, bool> verdicts;                                    // whether inside
  for (const PublishedTable& table : published.tables)
    for (const PublishedFigure& figure : table.figures) {
      if (!figure.expected) continue;
      bool& is_measured = cells[{table.evaluation, figure.model, figure.recipe}];
      for (const Entry* entry : entries) {
        if (!is_judged(table, figure, *entry)) continue;
        verdicts.emplace(entry, figure.expected->contains(entry->record.measures->perplexity));
        is_measured = true;
      }
    }
  ExpectedCount count{.measured = verdicts.size()};
  for (const auto& [entry, is_inside] : verdicts) count.inside += is_inside ? 1 : 0;
  for (const auto& [cell, is_measured] : cells) count.missing += is_measured ? 0 : 1;
  return count;
}

std::string expected_text(const ExpectedCount& count) {
  if (count.measured == 0)
    return fmt::format("None of the {} cells that something is expected of was measured", count.missing);
  std::string text = fmt::format("{} of {} inside what was expected", count.inside, count.measured);
  if (count.missing > 0) text += fmt::format(", {} more not measured", count.missing);
  return text;
}

}  // namespace nibble::eval
