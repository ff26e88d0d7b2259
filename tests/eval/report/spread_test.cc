#include "eval/report/spread.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "core/error.h"
#include "eval/report/build_report.h"
#include "tests/eval/report/example_sweep.h"
#include "tests/support/throws.h"

// Means over draws of the calibration text, of figures whose means and deviations one can do by hand.

namespace nibble::eval {
namespace {

using test::throws_with;

// A cell of the example's first three quantized ones (of 4 bits) in one draw.
SweepRecord cell(std::size_t which, const std::string& seed, double perplexity, const std::string& text = "c0ffee") {
  SweepRecord record = test::example_sweep().at(1 + which);
  record.id = fmt::format("{:x}{:x}{}", which, std::stoul(seed), text);
  record.configuration[2].second =
      fmt::format(R"({{"text_hash":"{1}","windows_hash":"{1}{0}","windows":"64","seeds":"{0}"}})", seed, text);
  record.measures->perplexity = perplexity;
  return record;
}

std::vector<Entry> entries_of(const std::vector<SweepRecord>& records) {
  std::vector<Entry> entries;
  for (const SweepRecord& record : records) entries.push_back({.record = record, .settings = settings_of(record)});
  return entries;
}

std::vector<ReportTable> tables(const std::vector<Entry>& entries, const std::string& over = "calibration.seed",
                                const PivotSettings& settings = {.rows = {"recipe"}, .columns = {"bits"}}) {
  Entries pointers;
  for (const Entry& entry : entries) pointers.push_back(&entry);
  return spread_tables(pointers, over, settings);
}

const std::vector<TableCell>& row_of(const ReportTable& table, std::size_t which) {
  const std::string name(fact(test::example_sweep().at(1 + which).labels, "recipe"));
  for (const auto& row : table.rows)
    if (row[0].text == name) return row;
  throw std::runtime_error("no row " + name);
}

// Deviations from the first, paired: 1, 1.5, 1.5 for the second and 0, 1, 0 for the third.
std::vector<SweepRecord> three_draws() {
  return {cell(0, "0", 10.0), cell(0, "1", 12.0), cell(0, "2", 14.0), cell(1, "0", 11.0), cell(1, "1", 13.5),
          cell(1, "2", 15.5), cell(2, "0", 10.0), cell(2, "1", 13.0), cell(2, "2", 14.0)};
}

TEST(Spread, MeansDeviationsAndPairedDifferences) {
  const auto entries = entries_of(three_draws());
  const auto made = tables(entries);
  ASSERT_EQ(made.size(), 1u);
  EXPECT_NE(made[0].title.find("3 values of calibration.seed"), std::string::npos) << made[0].title;
  EXPECT_EQ(row_of(made[0], 0)[1].text, "12.000 ± 2.000");
  EXPECT_EQ(row_of(made[0], 1)[1].text, "13.333 ± 2.255");  // 11, 13.5, 15.5
  EXPECT_EQ(row_of(made[0], 1)[1].detail, "+1.333 ± 0.167");
  EXPECT_FALSE(row_of(made[0], 1)[1].undecided);
  EXPECT_EQ(row_of(made[0], 2)[1].detail, "+0.333 ± 0.333");
  EXPECT_TRUE(row_of(made[0], 2)[1].undecided);
  EXPECT_TRUE(row_of(made[0], 0)[1].undecided) << "the third may be as low";
  EXPECT_TRUE(made[0].warnings.empty()) << made[0].warnings[0];
}

// 1, 2 and 3 more: 3.5 standard errors, within the 4.53 that two degrees of freedom ask for.
TEST(Spread, ThreeDrawsNeedMoreThanTwoStandardErrors) {
  const auto entries = entries_of({cell(0, "0", 10.0), cell(0, "1", 12.0), cell(0, "2", 14.0), cell(1, "0", 11.0),
                                   cell(1, "1", 14.0), cell(1, "2", 17.0)});
  const auto made = tables(entries);
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(row_of(made[0], 1)[1].detail, "+2.000 ± 0.577");
  EXPECT_TRUE(row_of(made[0], 1)[1].undecided);
  EXPECT_NE(made[0].caption.find("within 4.53 standard errors"), std::string::npos) << made[0].caption;
}

TEST(Spread, RowsAreNamedByWhatDrawsHaveInCommon) {
  const auto named = [](std::vector<SweepRecord> records, const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < records.size(); ++i)
      for (auto& [label, value] : records[i].labels)
        if (label == "recipe") value = names[i];
    const auto entries = entries_of(records);
    const auto made = tables(entries);
    std::set<std::string> rows;
    for (const auto& row : made[0].rows) rows.insert(row[0].text);
    return rows;
  };
  const std::vector<SweepRecord> draws = {cell(0, "0", 10.0), cell(0, "1", 12.0), cell(1, "0", 11.0),
                                          cell(1, "1", 13.5)};
  using Names = std::set<std::string>;
  EXPECT_EQ(named(draws, {"best, seed 0", "best, seed 1", "best, tuned, seed 10", "best, tuned, seed 11"}),
            (Names{"best", "best, tuned"}));
  EXPECT_EQ(named(draws, {"best", "best", "scalar, seed 0", "scalar, seed 0"}), (Names{"best", "scalar, seed 0"}));
  EXPECT_EQ(named(draws, {"a0", "a1", "b, seed 0", "b, seed 1"}), (Names{"a0", "b"})) << "nothing in common";
  EXPECT_EQ(named(draws, {"a, x, 0", "a, y, 1", "a, z, 0", "a, u, 1"}), (Names{"a, x, 0", "a, z, 0"}))
      << "both would be a";
}

TEST(Spread, TheLowestIsBoldWhereNoOtherMayBe) {
  auto records = three_draws();
  records.resize(6);
  const auto entries = entries_of(records);
  const auto made = tables(entries);
  EXPECT_TRUE(row_of(made.at(0), 0)[1].is_best);
  EXPECT_FALSE(row_of(made.at(0), 1)[1].is_best);
}

TEST(Spread, PairsOnlyWhatBothHaveAndSaysWhatStandsAlone) {
  auto records = three_draws();
  records.resize(7);  // the third has draw 0 alone: 10, below the mean of the first
  const auto entries = entries_of(records);
  const auto made = tables(entries);
  EXPECT_EQ(row_of(made.at(0), 2)[1].text, "10.000 (one)");
  EXPECT_EQ(row_of(made.at(0), 0)[1].text, "12.000 ± 2.000");
  for (const auto& row : made[0].rows)  // one pair has no error: who knows whether the third is the lowest
    EXPECT_FALSE(row[1].is_best || row[1].undecided) << row[1].text;
}

// A draw that one row lacks, and that is a lucky one, must not make the other the lowest: where both were drawn it is
// not.
TEST(Spread, NoneIsBoldThatAnotherIsBelowWhereBothWereDrawn) {
  const auto entries = entries_of({cell(0, "0", 10.0), cell(0, "1", 10.1), cell(0, "2", 10.2), cell(0, "3", 1.0),
                                   cell(1, "0", 9.0), cell(1, "1", 9.1), cell(1, "2", 9.21)});
  const auto made = tables(entries);
  EXPECT_EQ(row_of(made.at(0), 0)[1].detail, "the lowest mean, of other draws");
  EXPECT_EQ(row_of(made.at(0), 1)[1].detail, "−0.997 ± 0.003");
  for (const auto& row : made[0].rows) EXPECT_FALSE(row[1].is_best || row[1].undecided) << row[1].text;
  EXPECT_NE(made[0].caption.find("3 pairs have 2 degrees"), std::string::npos) << made[0].caption;
  EXPECT_EQ(made[0].caption.find("4 pairs"), std::string::npos) << made[0].caption;
}

TEST(Spread, TextsOfTheCalibrationAreNotTakenTogether) {
  auto records = three_draws();
  records.push_back(cell(0, "0", 20.0, "beef"));
  records.push_back(cell(0, "1", 22.0, "beef"));
  const auto entries = entries_of(records);
  const auto made = tables(entries);
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(row_of(made[0], 0)[1].text, "12.000 ± 2.000");
  EXPECT_EQ(row_of(made[1], 0)[1].text, "21.000 ± 1.414");
}

TEST(Spread, ASecondCellOfOneDrawIsNotCountedAndSaidSo) {
  auto records = three_draws();
  records.push_back(cell(0, "1", 99.0));
  records.back().environment[0].second = "another commit";
  const auto entries = entries_of(records);
  const auto made = tables(entries);
  EXPECT_EQ(row_of(made.at(0), 0)[1].text, "12.000 ± 2.000");
  ASSERT_FALSE(made[0].warnings.empty());
  EXPECT_NE(made[0].warnings.back().find("1 more with the settings and the calibration.seed of another"),
            std::string::npos);
}

// What a recipe says beside its defaults is no setting.
SweepRecord cell_with(const std::string& section, const std::string& seed, double perplexity) {
  SweepRecord record = cell(0, seed, perplexity);
  record.labels[1].second = section.empty() ? "plain" : section;
  std::string& recipe = record.configuration[1].second;
  if (!section.empty()) recipe.insert(recipe.size() - 1, "," + section);
  return record;
}

constexpr const char* kSections[] = {"", R"("budget":{"bits_per_weight":3.0})", R"("budget":{"bits_per_weight":2.5})",
                                     R"("layers":[{"match":"c_fc","bits":8}])", R"("tuning":{"epochs":2})"};

TEST(Spread, RecipesThatNoSettingTellsApartAreNotTakenTogether) {
  std::vector<SweepRecord> records;
  for (const char* section : kSections)
    for (const char* seed : {"0", "1"}) {
      const std::size_t sections_before = records.size() / 2;
      records.push_back(cell_with(section, seed, 10.0 * static_cast<double>(1 + sections_before)));
    }
  records.push_back(test::given_checkpoint(records[0], "A"));
  records.push_back(test::given_checkpoint(records[0], "B"));
  const auto entries = entries_of(records);
  const auto made = tables(entries);
  ASSERT_EQ(made.size(), 1u);
  EXPECT_TRUE(made[0].warnings.empty()) << made[0].warnings[0];
  ASSERT_EQ(made[0].rows.size(), 7u);
  std::set<std::string> texts;
  for (const auto& row : made[0].rows)
    for (std::size_t c = 1; c < row.size(); ++c) texts.insert(row[c].text);
  EXPECT_EQ(texts, (std::set<std::string>{"10.000 ± 0.000", "20.000 ± 0.000", "30.000 ± 0.000", "40.000 ± 0.000",
                                          "50.000 ± 0.000", "10.000 (one)", "–"}));
}

TEST(Spread, ARecipesOwnSettingIsTakenTogetherWithinItsSections) {
  std::vector<SweepRecord> records;
  for (const char* section : kSections)
    for (const char* seed : {"0", "1"}) {
      records.push_back(cell_with(section, "0", 10.0 + static_cast<double>(records.size())));
      std::string& recipe = records.back().configuration[1].second;
      recipe.insert(recipe.find("\"bits\""), fmt::format("\"seed\":{},", seed));
    }
  const auto entries = entries_of(records);
  const auto made = tables(entries, "seed");
  ASSERT_EQ(made.size(), 1u);
  ASSERT_EQ(made[0].rows.size(), std::size(kSections));
  for (const auto& row : made[0].rows) EXPECT_TRUE(row[1].text.ends_with(" ± 0.707")) << row[1].text;
}

TEST(Spread, CellsWithoutTheSettingAddNoValue) {
  auto records = three_draws();
  records.push_back(test::given_checkpoint(records[0], "A"));
  const auto entries = entries_of(records);
  const auto made = tables(entries);
  ASSERT_EQ(made.size(), 1u);
  EXPECT_NE(made[0].title.find("over 3 values of calibration.seed"), std::string::npos) << made[0].title;
  EXPECT_NE(made[0].caption.find("3 pairs have 2 degrees of freedom"), std::string::npos) << made[0].caption;

  // Of an evaluation in which nothing else was measured: no values, no pairs.
  records.back().labels[2].second = "another text";
  records.back().configuration[3].second = R"({"tokens":"cd34","protocol":"blocks","context":512})";
  const auto apart = entries_of(records);
  const ReportTable alone = tables(apart).at(0);
  EXPECT_NE(alone.title.find("another text, without calibration.seed"), std::string::npos) << alone.title;
  EXPECT_EQ(alone.caption.find("degrees of freedom"), std::string::npos) << alone.caption;
}

TEST(Spread, ADefaultThatARecipeLeavesOutIsAValue) {
  auto records = three_draws();
  records.resize(2);
  for (SweepRecord& record : records) record.configuration[2].second = "null";
  std::string& recipe = records[1].configuration[1].second;
  recipe.insert(recipe.find("\"bits\""), "\"window_bits\":6,");
  const auto entries = entries_of(records);
  EXPECT_NE(tables(entries, "window_bits").at(0).title.find("over 2 values of window_bits"), std::string::npos);
}

TEST(Spread, WhatIsNotFiniteIsSaidAndNeverTheLowest) {
  auto records = three_draws();
  records[7].measures->perplexity = std::numeric_limits<double>::quiet_NaN();
  const auto entries = entries_of(records);
  const auto made = tables(entries);
  EXPECT_EQ(row_of(made.at(0), 2)[1].text, "not finite");
  EXPECT_FALSE(row_of(made[0], 2)[1].is_best || row_of(made[0], 2)[1].undecided);
  EXPECT_TRUE(row_of(made[0], 0)[1].is_best);
}

TEST(Spread, OtherModelsAndEvaluationsHaveTablesOfTheirOwn) {
  auto records = three_draws();
  for (SweepRecord record : three_draws()) {
    record.labels[2].second = "another text";
    record.configuration[3].second = R"({"tokens":"cd34","protocol":"blocks","context":512})";
    record.measures->perplexity *= 2.0;
    records.push_back(std::move(record));
  }
  const auto entries = entries_of(records);
  const auto made = tables(entries);
  ASSERT_EQ(made.size(), 2u);
  EXPECT_NE(row_of(made[0], 0)[1].text, row_of(made[1], 0)[1].text);
}

TEST(Spread, WhatCannotBeTakenTogetherIsRefused) {
  const auto entries = entries_of(three_draws());
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { tables(entries, "calibration.sed"); }, "calibration.seed"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { tables(entries, "calibration.samples"); },
                                           "no two cells differ in it alone; they do in"));
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] { tables(entries, "calibration.seed", {.rows = {"calibration.seed"}, .columns = {"bits"}}); },
      "cannot be taken together"));
}

TEST(Spread, StandsFirstInAReportAndLeavesDrawsOutOfItsRows) {
  ReportInput input;
  input.entries = entries_of(three_draws());
  const Report report = build_report(input, {.over = "seed"});
  EXPECT_EQ(report.sections[0].title, "Quality over calibration.seed");
  const auto& table = std::get<ReportTable>(report.sections[0].items[0]);
  EXPECT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.columns[0].find("seed"), std::string::npos) << table.columns[0];
}

}  // namespace
}  // namespace nibble::eval
