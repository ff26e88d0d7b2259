#include "eval/report/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/json_fields.h"
#include "core/output_file.h"
#include "core/strict_json.h"
#include "eval/report/figures.h"
#include "eval/report/tables.h"

namespace nibble::eval {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 20;

void add_once(std::vector<std::string>& names, std::string_view name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
}

TableCell cell_of(const Entry* entry, const PublishedFigure* figure) {
  TableCell cell{.text = "–", .detail = {}};
  if (entry != nullptr) {
    cell.text = fmt::format("{:.4f}", entry->record.measures->perplexity);
    if (const auto& error = entry->record.measures->perplexity_stderr) cell.text += fmt::format(" ± {:.2f}", *error);
  }
  if (figure != nullptr) cell.detail = fmt::format("published {}", figure->perplexity);
  if (entry != nullptr && figure != nullptr)
    cell.detail +=
        fmt::format(", difference {}", signed_number(entry->record.measures->perplexity - figure->perplexity, 4));
  return cell;
}

}  // namespace

PublishedFigures load_published(const std::filesystem::path& file) {
  const std::string what = fmt::format("'{}'", file.string());
  const nlohmann::json json = parse_strict_json(read_text_file(file, kMaxBytes), what);
  const JsonFields fields(json, what);
  PublishedFigures published{.title = fields.text("title"), .source = fields.text("source"), .tables = {}};
  for (const JsonFields& table : fields.objects("tables")) {
    published.tables.push_back(
        {.title = table.text("title"), .evaluation = table.text_or("evaluation", ""), .figures = {}});
    for (const JsonFields& figure : table.objects("figures"))
      published.tables.back().figures.push_back({figure.text("model"), figure.text("recipe"),
                                                 figure.number("perplexity", 0.0, std::numeric_limits<double>::max())});
  }
  return published;
}

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
      if (!entry->setting("evaluation").starts_with(source.evaluation)) continue;
      if (std::find(recipes.begin(), recipes.end(), entry->setting("recipe")) == recipes.end()) continue;
      add_once(models, entry->setting("model"));
      used.push_back(entry);
    }
    ReportTable table{.title = fmt::format("{}: {}", published.title, source.title),
                      .caption =
                          "Perplexity measured here ± its standard error; below it, what was published and the "
                          "difference. Source: " +
                          published.source,
                      .columns = {"recipe"},
                      .rows = {},
                      .warnings = mixture_warnings(used)};
    table.columns.insert(table.columns.end(), models.begin(), models.end());
    for (const std::string& recipe : recipes) {
      std::vector<TableCell> row = {{.text = recipe, .detail = {}, .is_number = false}};
      for (const std::string& model : models) {
        const auto entry = std::find_if(used.begin(), used.end(), [&](const Entry* candidate) {
          return candidate->setting("recipe") == recipe && candidate->setting("model") == model;
        });
        const auto figure = std::find_if(source.figures.begin(), source.figures.end(), [&](const PublishedFigure& f) {
          return f.recipe == recipe && f.model == model;
        });
        row.push_back(
            cell_of(entry == used.end() ? nullptr : *entry, figure == source.figures.end() ? nullptr : &*figure));
      }
      table.rows.push_back(std::move(row));
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace nibble::eval
