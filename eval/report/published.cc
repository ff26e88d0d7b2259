#include "eval/report/published.h"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/files/output_file.h"
#include "core/text/json.h"
#include "core/text/json_fields.h"
#include "core/text/strict_json.h"

namespace nibble::eval {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 20;
constexpr std::size_t kMostFigures = 500;  // of a table, which has a cell for each recipe and model

std::string brackets(const ExpectedRange& range) { return fmt::format("[{}, {}]", range.low, range.high); }

ExpectedRange range_of(const JsonFields& figure) {
  const std::vector<double> ends = figure.numbers("expected", 2);
  const ExpectedRange range{ends[0], ends[1]};
  NIBBLE_REQUIRE(range.low > 0.0 && range.low < range.high, FormatError,
                 "{}: 'expected': expected two perplexities, positive and the lower first, got {}", figure.what(),
                 brackets(range));
  return range;
}

PublishedFigure figure_of(const JsonFields& fields) {
  PublishedFigure figure{.model = fields.text("model"), .recipe = fields.text("recipe")};
  if (fields.has("perplexity"))
    figure.perplexity = fields.number("perplexity", 0.0, std::numeric_limits<double>::max());
  if (fields.has("expected")) figure.expected = range_of(fields);
  fields.refuse_unread();
  NIBBLE_REQUIRE(figure.perplexity || figure.expected, FormatError,
                 "{}: '{}' of '{}' has neither 'perplexity' (what was published) nor 'expected' (a range)",
                 fields.what(), figure.recipe, figure.model);
  return figure;
}

PublishedTable table_of(const JsonFields& fields) {
  PublishedTable table{.title = fields.text("title"),
                       .evaluation = fields.text_or("evaluation", ""),
                       .expected_for = fields.text_or("expected_for", ""),
                       .why = fields.text_or("why", "")};
  NIBBLE_REQUIRE(table.expected_for.empty() || table.expected_for.starts_with(table.evaluation), FormatError,
                 "{}: 'expected_for' ('{}') must begin as 'evaluation' does ('{}'); else no cell could have both",
                 fields.what(), table.expected_for, table.evaluation);
  std::set<std::pair<std::string, std::string>> seen;
  const auto figures = fields.objects("figures");
  NIBBLE_REQUIRE(figures.size() <= kMostFigures, FormatError, "{}: expected at most {} figures in a table, got {}",
                 fields.what(), kMostFigures, figures.size());
  for (const JsonFields& object : figures) {
    const PublishedFigure& figure = table.figures.emplace_back(figure_of(object));
    NIBBLE_REQUIRE(seen.emplace(figure.model, figure.recipe).second, FormatError, "{}: '{}' of '{}' comes twice",
                   object.what(), figure.recipe, figure.model);
    NIBBLE_REQUIRE(!figure.expected || !table.why.empty(), FormatError,
                   "{}: '{}' of '{}' has a range; expected a text 'why' in its table that says how ranges come about",
                   object.what(), figure.recipe, figure.model);
  }
  fields.refuse_unread();
  return table;
}

// A cell has one expectation, however many tables show it.
void require_agreement(const PublishedFigures& published, const std::string& what) {
  std::map<std::tuple<std::string, std::string, std::string>, ExpectedRange> ranges;
  for (const PublishedTable& table : published.tables)
    for (const PublishedFigure& figure : table.figures) {
      if (!figure.expected) continue;
      const auto [known, is_new] =
          ranges.emplace(std::tuple(table.evaluation, figure.model, figure.recipe), *figure.expected);
      NIBBLE_REQUIRE(known->second == *figure.expected, FormatError,
                     "{}: '{}' of '{}' is expected in {} and, in table '{}', in {}; expected the same range", what,
                     figure.recipe, figure.model, brackets(known->second), table.title, brackets(*figure.expected));
    }
}

}  // namespace

PublishedFigures load_published(const std::filesystem::path& file) {
  const std::string what = fmt::format("'{}'", file.string());
  const nlohmann::json json = parse_strict_json(read_text_file(file, kMaxBytes), what);
  const JsonFields fields(json, what);
  PublishedFigures published{.title = fields.text("title"), .source = fields.text("source"), .tables = {}};
  for (const JsonFields& table : fields.objects("tables")) published.tables.push_back(table_of(table));
  fields.refuse_unread();
  require_agreement(published, what);
  return published;
}

}  // namespace nibble::eval
