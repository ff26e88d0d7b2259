#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "eval/report/document.h"
#include "eval/report/pivot.h"

namespace nibble::eval {

/// low <= perplexity <= high, said before anybody measured it; 0 < low < high, finite.
struct ExpectedRange {
  double low = 0.0, high = 0.0;
  bool contains(double perplexity) const { return low <= perplexity && perplexity <= high; }
  bool operator==(const ExpectedRange&) const = default;
};

/// At least one of `perplexity` and `expected`.
struct PublishedFigure {
  std::string model = {}, recipe = {};  ///< labels of the cells that correspond
  std::optional<double> perplexity = {};
  std::optional<ExpectedRange> expected = {};
};

struct PublishedTable {
  std::string title = {};
  std::string evaluation = {};    ///< what the names of comparable evaluations begin with ("C4"); empty: any
  std::string expected_for = {};  ///< the whole name of the evaluation that ranges hold for; empty: any of those
  std::string why = {};           ///< how the ranges come about
  std::vector<PublishedFigure> figures = {};
};

/// Perplexities that somebody published, to stand beside measured ones, and ranges in which measured ones are expected:
/// a JSON file (scripts/published/ has examples).
struct PublishedFigures {
  std::string title = {}, source = {};
  std::vector<PublishedTable> tables = {};
};

/// Throws FormatError naming the file, the place in it and what is wrong: keys that are not known, a figure without
/// anything to say, one that comes twice in a table, a range that is none or stands in a table without `why`, two
/// ranges for one cell that differ.
PublishedFigures load_published(const std::filesystem::path& file);

/// One table per published one: its recipes by its models and those that were measured. A cell shows what was measured,
/// what was published, the difference of the two, the range expected and whether the measured figure lies in it.
/// Entries of another evaluation are left out, and those whose recipe the table does not name.
std::vector<ReportTable> published_tables(const PublishedFigures& published, const Entries& entries);

/// How many measured cells lie in the ranges expected of them; a cell that several tables name counts once.
struct ExpectedCount {
  std::size_t inside = 0, measured = 0;  ///< entries
  std::size_t missing = 0;               ///< cells that something is expected of and that nobody measured
  bool expects() const { return measured + missing > 0; }
};
ExpectedCount count_expected(const PublishedFigures& published, const Entries& entries);

/// One line: "14 of 16 inside what was expected, 24 more not measured".
std::string expected_text(const ExpectedCount& count);

}  // namespace nibble::eval
