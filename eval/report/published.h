#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "eval/report/document.h"
#include "eval/report/pivot.h"

namespace nibble::eval {

struct PublishedFigure {
  std::string model = {}, recipe = {};  ///< labels of the cells that correspond
  double perplexity = 0.0;
};

struct PublishedTable {
  std::string title = {};
  std::string evaluation = {};  ///< what the names of comparable evaluations begin with ("C4"); empty: any
  std::vector<PublishedFigure> figures = {};
};

/// Perplexities that somebody published, to stand beside measured ones: a JSON file (scripts/published/ has examples).
struct PublishedFigures {
  std::string title = {}, source = {};
  std::vector<PublishedTable> tables = {};
};

/// Throws FormatError naming the file and what is wrong with it.
PublishedFigures load_published(const std::filesystem::path& file);

/// One table per published one: its recipes by its models and those that were measured. A cell shows what was measured,
/// what was published, and the difference of the two. Entries of another evaluation are left out, and those whose
/// recipe the table does not name.
std::vector<ReportTable> published_tables(const PublishedFigures& published, const Entries& entries);

}  // namespace nibble::eval
