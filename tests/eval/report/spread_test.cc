#include "eval/report/spread.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

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
  for (const SweepRecord& record : records) entries.push_back({.record = record, .settings = report_settings(record)});
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
