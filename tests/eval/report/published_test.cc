#include "eval/report/published.h"

#include <gmock/gmock.h>

#include <limits>
#include <memory>

#include "core/error.h"
#include "eval/report/build_report.h"
#include "eval/report/writers.h"
#include "tests/eval/report/example_sweep.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

using test::throws_with;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

// A file of one table with these figures (JSON).
std::string file_of(const std::string& figures, const std::string& more = R"("why": "as we think", )") {
  return R"({"title": "A post", "source": "somebody, 2024", "tables": [{"title": "one", "evaluation": "novels", )" +
         more + R"("figures": [)" + figures + "]}]}";
}

constexpr const char* kCell = R"("model": "gpt2-novels", "recipe": "float")";
std::string figure(const std::string& more) { return std::string("{") + kCell + ", " + more + "}"; }

class Published : public testing::Test {
 protected:
  PublishedFigures load(const std::string& json) const {
    test::write_file(directory_ / "published.json", json);
    return load_published(directory_ / "published.json");
  }
  // Entries of the float model with these perplexities, all of the evaluation named.
  void measure(const std::vector<double>& perplexities, const std::string& evaluation = "novels, blocks of 512") {
    SweepRecord record = test::example_sweep().back();
    for (const SweepRecord& candidate : test::example_sweep())
      if (fact(candidate.labels, "recipe") == "float") record = candidate;
    for (const double perplexity : perplexities) {
      record.measures->perplexity = perplexity;
      record.labels = {{"model", "gpt2-novels"}, {"recipe", "float"}, {"evaluation", evaluation}};
      own_.push_back(std::make_unique<Entry>(Entry{.record = record, .settings = settings_of(record)}));
      entries_.push_back(own_.back().get());
    }
  }
  std::string detail(const std::string& json) const {
    return published_tables(load(json), entries_)[0].rows[0][1].detail;
  }

  test::TempDir directory_;
  std::vector<std::unique_ptr<Entry>> own_;
  Entries entries_;
};

TEST_F(Published, TablesThatWouldGrowBeyondBoundsAreRefused) {
  std::string figures;
  for (int i = 0; i <= 500; ++i) {
    const std::string name = std::to_string(i);
    figures +=
        (i == 0 ? "" : ", ") + (R"({"model": "m)" + name + R"(", "recipe": "r)" + name) + R"(", "perplexity": 9})";
  }
  EXPECT_TRUE(throws_with<FormatError>([&] { load(file_of(figures)); }, "at most 500 figures", "got 501"));
}

TEST_F(Published, FilesInTheRepositoryAreReadable) {
  for (const char* name : {"whole_tensor.json", "llama.json", "llama32.json"}) {
    const PublishedFigures figures = load_published(test::source_path("scripts/published") / name);
    for (const PublishedTable& table : figures.tables) {
      EXPECT_FALSE(table.why.empty()) << name << ": " << table.title;
      EXPECT_FALSE(table.expected_for.empty()) << name << ": " << table.title;
      for (const PublishedFigure& figure : table.figures)
        if (figure.expected) {
          EXPECT_LT(figure.expected->high, 4 * figure.expected->low)
              << name << ": nothing could miss " << figure.recipe;
        }
    }
  }
}

// Cells are found by their names: one that the command does not make would be missing for ever.
TEST_F(Published, TheCommandMakesTheRecipesThatFilesName) {
  const std::string script = test::read_file(test::source_path("scripts/reproduce_whole_tensor_tables.sh"));
  for (const char* name : {"whole_tensor.json", "llama.json", "llama32.json"})
    for (const PublishedTable& table : load_published(test::source_path("scripts/published") / name).tables)
      for (const PublishedFigure& figure : table.figures)
        if (figure.recipe != "float") {
          EXPECT_THAT(script, testing::AnyOf(HasSubstr("{name: " + figure.recipe + ","),
                                             HasSubstr("{name: " + figure.recipe + "}"),
                                             HasSubstr("{name: \"" + figure.recipe + "\"")))
              << name;
        }
}

TEST_F(Published, ACellHasAFigureOrARangeOrBoth) {
  const PublishedFigures figures = load(file_of(
      figure(R"("perplexity": 25.5, "expected": [25, 26])") +
      R"(, {"model": "a", "recipe": "b", "expected": [1.5, 2e3]}, {"model": "a", "recipe": "c", "perplexity": 3})"));
  const std::vector<PublishedFigure>& cells = figures.tables.at(0).figures;
  ASSERT_EQ(cells.size(), 3u);
  EXPECT_EQ(cells[0].perplexity, 25.5);
  EXPECT_EQ(cells[0].expected, (ExpectedRange{25.0, 26.0}));
  EXPECT_FALSE(cells[1].perplexity);
  EXPECT_EQ(cells[1].expected, (ExpectedRange{1.5, 2000.0}));
  EXPECT_EQ(cells[2].perplexity, 3.0);
  EXPECT_FALSE(cells[2].expected);
  EXPECT_EQ(figures.tables[0].why, "as we think");
}

TEST_F(Published, WhatIsNoRangeIsRefused) {
  for (const char* range : {"[26, 25]", "[25, 25]", "[0, 25]", "[-1, 25]", "[25]", "[25, 26, 27]", "[25, \"26\"]", "25",
                            "{\"low\": 25, \"high\": 26}", "[25, null]"})
    EXPECT_TRUE(throws_with<FormatError>([&] { load(file_of(figure(std::string("\"expected\": ") + range))); },
                                         "published.json", "'expected'"));
  // 1e999 is no number of JSON's; the reader of JSON refuses it before anybody looks for a range.
  EXPECT_TRUE(throws_with<FormatError>([&] { load(file_of(figure(R"("expected": [25, 1e999])"))); }, "published.json"));
  EXPECT_TRUE(throws_with<FormatError>([&] { load(file_of(figure(R"("perplexity": -1)"))); }, "'perplexity'", "-1"));
}

TEST_F(Published, AFileThatSaysNothingOrTooMuchIsRefused) {
  EXPECT_TRUE(throws_with<FormatError>([&] { load(file_of(std::string("{") + kCell + "}")); }, "'float'",
                                       "neither 'perplexity'"));
  EXPECT_TRUE(
      throws_with<FormatError>([&] { load(file_of(figure(R"("expected": [25, 26])"), "")); }, "'why'", "'float'"));
  EXPECT_TRUE(
      throws_with<FormatError>([&] { load(file_of(figure(R"("perplexitty": 26)"))); }, "perplexitty", "perplexity"));
  EXPECT_TRUE(throws_with<FormatError>([&] { load(file_of("", R"("because": "so", )")); }, "because"));
  EXPECT_TRUE(throws_with<FormatError>(
      [&] { load(file_of(figure(R"("perplexity": 26)") + ", " + figure(R"("perplexity": 26)"))); }, "comes twice"));
  EXPECT_TRUE(throws_with<FormatError>([&] { load(file_of("", R"("expected_for": "C4, blocks", )")); },
                                       "'expected_for'", "C4, blocks", "novels"));
}

TEST_F(Published, TwoTablesMayNotExpectDifferentThingsOfOneCell) {
  const auto two = [&](const std::string& second) {
    return R"({"title": "t", "source": "s", "tables": [
        {"title": "one", "why": "w", "figures": [)" +
           figure(R"("expected": [25, 26])") + R"(]}, {"title": "two", "why": "w", "figures": [)" + figure(second) +
           "]}]}";
  };
  EXPECT_EQ(load(two(R"("expected": [25, 26])")).tables.size(), 2u);
  EXPECT_EQ(load(two(R"("perplexity": 30)")).tables.size(), 2u);
  EXPECT_TRUE(throws_with<FormatError>([&] { load(two(R"("expected": [25, 27])")); }, "[25, 26]", "[25, 27]", "'two'"));
}

TEST_F(Published, ACellSaysWhetherItLiesInside) {
  const std::string both = file_of(figure(R"("perplexity": 25.5, "expected": [25, 26])"));
  EXPECT_EQ(detail(both), "published 25.5; expected 25 to 26");  // nothing measured yet
  for (const auto& [measured, end] :
       std::vector<std::pair<double, std::string>>{{25.0, "25 to 26: inside"},
                                                   {26.0, "25 to 26: inside"},
                                                   {24.999, "25 to 26: outside (below)"},
                                                   {26.001, "25 to 26: outside"},
                                                   {std::numeric_limits<double>::quiet_NaN(), "25 to 26: outside"}}) {
    entries_.clear();
    measure({measured});
    EXPECT_THAT(detail(both), AllOf(HasSubstr("published 25.5, difference "), testing::EndsWith(end))) << measured;
  }
  EXPECT_EQ(detail(file_of(figure(R"("expected": [25, 26])"))), "expected 25 to 26: outside");
  EXPECT_THAT(detail(file_of(figure(R"("perplexity": 25.5)"))), Not(HasSubstr("expected")));
}

TEST_F(Published, RangesHoldForTheEvaluationNamed) {
  const std::string json =
      file_of(figure(R"("expected": [25, 26])"), R"("why": "w", "expected_for": "novels, blocks of 512", )");
  measure({25.5}, "novels, blocks of 512, first 4000 tokens");
  EXPECT_EQ(detail(json), "expected 25 to 26: of another evaluation");
  EXPECT_EQ(count_expected(load(json), entries_).measured, 0u);
  measure({30.0});
  EXPECT_EQ(detail(json), "expected 25 to 26: outside") << "the evaluation itself is shown, not the trial of it";
  EXPECT_EQ(count_expected(load(json), entries_).measured, 1u);
}

TEST_F(Published, EachCellCountsOnce) {
  const std::string table = R"({"title": "one", "evaluation": "novels", "why": "w", "figures": [)" +
                            figure(R"("expected": [25, 26])") +
                            R"(, {"model": "gpt2-xl", "recipe": "float", "expected": [14, 15]}]})";
  const PublishedFigures figures = load(R"({"title": "t", "source": "s", "tables": [)" + table + ", " + table + "]}");
  EXPECT_EQ(expected_text(count_expected(figures, entries_)),
            "None of the 2 cells that something is expected of was measured");
  measure({25.5});
  const ExpectedCount count = count_expected(figures, entries_);
  EXPECT_EQ(count.inside, 1u);
  EXPECT_EQ(count.measured, 1u);
  EXPECT_EQ(count.missing, 1u);
  measure({26.5, 25.9, 25.8});  // other draws of the calibration, say
  EXPECT_EQ(expected_text(count_expected(figures, entries_)), "3 of 4 inside what was expected, 1 more not measured");
}

TEST_F(Published, TheFloatModelBesideCellsWithDivergenceIsNoMixture) {
  measure({25.5, 25.6, 25.7});
  const auto evaluation = [](Entry& entry, const char* json) {
    for (auto& [name, value] : entry.record.configuration)
      if (name == "evaluation") value = json;
  };
  evaluation(*own_[0], R"({"tokens": "ab12", "context": 512, "divergence": false})");
  evaluation(*own_[1], R"({"tokens": "ab12", "context": 512, "divergence": true})");
  evaluation(*own_[2], R"({"tokens": "ab12", "context": 256, "divergence": true})");
  const PublishedFigures figures = load(file_of(figure(R"("perplexity": 25)")));
  EXPECT_THAT(published_tables(figures, {own_[0].get(), own_[1].get()})[0].warnings, testing::IsEmpty());
  EXPECT_THAT(published_tables(figures, entries_)[0].warnings,
              testing::ElementsAre(HasSubstr("different evaluations")));
}

TEST_F(Published, EveryFormatThatHasTablesShowsThem) {
  measure({25.5});
  ReportInput input;
  for (const Entry* entry : entries_) input.entries.push_back(*entry);
  const Report report =
      build_report(input, {.published = load(file_of(figure(R"("perplexity": 25, "expected": [25, 26])")))});
  EXPECT_THAT((std::vector{html_report(report), markdown_report(report), tex_report(report)}),
              Each(AllOf(HasSubstr("1 of 1 inside what was expected"), HasSubstr("expected 25 to 26: inside"),
                         HasSubstr("as we think"))));
}

}  // namespace
}  // namespace nibble::eval
