#include "eval/report/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/output_file.h"
#include "core/strict_json.h"
#include "eval/report/figures.h"
#include "eval/report/tables.h"

namespace nibble::eval {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 20;

using Json = nlohmann::json;

const Json& member(const Json& object, const char* key, const std::string& what) {
  NIBBLE_REQUIRE(object.is_object() && object.contains(key), FormatError, "{}: '{}' is missing", what, key);
  return object[key];
}

std::string text(const Json& object, const char* key, const std::string& what) {
  const Json& value = member(object, key, what);
  NIBBLE_REQUIRE(value.is_string(), FormatError, "{}: '{}': expected a text", what, key);
  return value.get<std::string>();
}

const Json& list(const Json& object, const char* key, const std::string& what) {
  const Json& value = member(object, key, what);
  NIBBLE_REQUIRE(value.is_array(), FormatError, "{}: '{}': expected a list", what, key);
  return value;
}

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
  const Json json = parse_strict_json(read_text_file(file, kMaxBytes), what);
  PublishedFigures published{.title = text(json, "title", what), .source = text(json, "source", what), .tables = {}};
  for (const Json& table : list(json, "tables", what)) {
    published.tables.push_back({.title = text(table, "title", what),
                                .evaluation = table.contains("evaluation") ? text(table, "evaluation", what) : "",
                                .figures = {}});
    for (const Json& figure : list(table, "figures", what)) {
      const Json& perplexity = member(figure, "perplexity", what);
      NIBBLE_REQUIRE(perplexity.is_number() && perplexity.get<double>() > 0.0, FormatError,
                     "{}: 'perplexity': expected a number above 0", what);
      published.tables.back().figures.push_back(
          {text(figure, "model", what), text(figure, "recipe", what), perplexity.get<double>()});
    }
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
