#include "eval/report/pivot.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "eval/report/tables.h"
#include "tests/eval/report/example_sweep.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

class PivotTest : public testing::Test {
 protected:
  void use(const std::vector<SweepRecord>& records) {
    for (const SweepRecord& record : records)
      if (fact(record.configuration, "recipe") != "null")
        store_.push_back({.record = record, .settings = settings_of(record), .to_baseline = {}});
    for (const Entry& entry : store_) entries_.push_back(&entry);
  }
  std::vector<Entry> store_;
  Entries entries_;
};

TEST_F(PivotTest, AnAblationBecomesOneTableOfItsSettingsByBits) {
  use(test::example_sweep());
  const PivotSettings settings = default_pivot(entries_);
  EXPECT_EQ(settings.rows, (SettingNames{"weighting", "scaling", "shifting"}));
  EXPECT_EQ(settings.columns, (SettingNames{"bits"}));
  const auto pivots = make_pivots(entries_, settings.rows, settings.columns);
  ASSERT_EQ(pivots.size(), 1u);
  EXPECT_EQ(pivots[0].column_names, (std::vector<std::string>{"2", "3", "4"}));
  EXPECT_EQ(pivots[0].row_names.size(), 8u);
  EXPECT_EQ(pivots[0].row_names[1], "shifting");  // by weighting, then scaling, then shifting
  EXPECT_EQ(pivots[0].row_names[2], "scaling std");
  EXPECT_EQ(pivots[0].row_names.front(), "none");
  EXPECT_EQ(pivots[0].row_names.back(), "weighting fisher + scaling std + shifting");
  EXPECT_EQ(pivots[0].cells.size(), 24u);
}

TEST_F(PivotTest, SettingsThatFollowFromOthersAreLeftOut) {
  std::vector<SweepRecord> records = test::example_sweep();
  for (SweepRecord& record : records) {
    std::string& recipe = record.configuration[1].second;
    const std::size_t place = recipe.find("\"scaling\":\"std\"");
    if (place != std::string::npos) recipe.insert(place, "\"sign\":\"plain\",");
  }
  use(records);
  EXPECT_EQ(varying_settings(entries_).size(), 6u);  // recipe, weighting, sign, scaling, shifting, bits
  EXPECT_EQ(default_pivot(entries_).rows, (SettingNames{"weighting", "scaling", "shifting"}));
}

TEST_F(PivotTest, SettingsOnlySomeCellsHaveStayWhereNothingElseTellsTheseCells) {
  std::vector<SweepRecord> records = test::example_sweep();
  std::vector<SweepRecord> others = records;
  for (SweepRecord& record : others) {
    std::string& recipe = record.configuration[1].second;
    const std::size_t place = recipe.find("\"weighting\"");
    if (place != std::string::npos) recipe.insert(place, "\"search\":\"error\",");
  }
  records.insert(records.end(), others.begin(), others.end());
  use(records);
  EXPECT_TRUE(std::ranges::count(default_pivot(entries_).rows, "search"));
}

TEST_F(PivotTest, WhatElseDiffersMakesTablesOfItsOwn) {
  use(test::example_sweep());
  const auto pivots = make_pivots(entries_, {"weighting"}, {"scaling"});
  ASSERT_EQ(pivots.size(), 6u);  // bits x shifting
  for (const Pivot& pivot : pivots) {
    EXPECT_EQ(pivot.cells.size(), 4u);
    EXPECT_EQ(pivot.fixed.size(), 4u);  // model, evaluation, and those two
  }
}

TEST_F(PivotTest, EvaluationsNeverShareATableUnlessAskedTo) {
  std::vector<SweepRecord> records = test::example_sweep();
  std::vector<SweepRecord> other = records;
  for (SweepRecord& record : other) {
    record.labels[2].second = "sliding";
    record.configuration[3].second = R"({"tokens":"ab12","protocol":"sliding","context":512})";
  }
  records.insert(records.end(), other.begin(), other.end());
  use(records);
  EXPECT_EQ(make_pivots(entries_, {"recipe"}, {"model"}).size(), 2u);
  EXPECT_EQ(make_pivots(entries_, {"recipe"}, {"evaluation"}).size(), 1u);
}

TEST_F(PivotTest, WhatWindowsBeginWithIsNoSettingOfARow) {
  std::vector<SweepRecord> records = test::example_sweep();
  std::vector<SweepRecord> other = records;
  for (SweepRecord& record : records)
    record.configuration[3].second = R"({"tokens":"ab12","protocol":"blocks","context":512,"bos":null})";
  for (SweepRecord& record : other)
    record.configuration[3].second = R"({"tokens":"ab12","protocol":"blocks","context":512,"bos":2})";
  records.insert(records.end(), other.begin(), other.end());
  use(records);
  const PivotSettings settings = default_pivot(entries_);
  EXPECT_EQ(settings.rows, (SettingNames{"weighting", "scaling", "shifting"}));
  EXPECT_EQ(make_pivots(entries_, settings.rows, settings.columns).size(), 2u);
}

TEST_F(PivotTest, WhatATextIsForIsNoSettingOfARow) {
  std::vector<SweepRecord> records = test::example_sweep();
  std::vector<SweepRecord> other = records;
  for (SweepRecord& record : records) record.labels.emplace_back("use", "validation");
  for (SweepRecord& record : other) {
    record.labels[2].second = "another text";
    record.labels.emplace_back("use", "test");
  }
  records.insert(records.end(), other.begin(), other.end());
  use(records);
  ASSERT_EQ(entries_.back()->setting("use"), "test");
  EXPECT_EQ(default_pivot(entries_).rows, (SettingNames{"weighting", "scaling", "shifting"}));
}

TEST_F(PivotTest, TwinsThatNoSettingTellsApartAreAllShown) {
  std::vector<SweepRecord> records = test::example_sweep();
  SweepRecord twin = records[1];
  twin.configuration[2].second = R"({"text":"another"})";
  records.push_back(twin);
  use(records);
  std::size_t cells = 0;
  for (const Pivot& pivot : make_pivots(entries_, {"recipe"}, {"model"})) cells += pivot.cells.size();
  EXPECT_EQ(cells, 25u);
}

TEST_F(PivotTest, AGivenCheckpointStandsInARowOfItsNameAndSplitsNothing) {
  std::vector<SweepRecord> records = test::example_sweep();
  for (const char* name : {"B", "A"}) records.push_back(test::given_checkpoint(records[1], name));
  use(records);
  const PivotSettings settings = default_pivot(entries_);
  EXPECT_EQ(settings.rows, (SettingNames{"weighting", "scaling", "shifting"}));
  const auto pivots = make_pivots(entries_, settings.rows, settings.columns);
  ASSERT_EQ(pivots.size(), 1u);
  EXPECT_EQ(pivots[0].column_names, (std::vector<std::string>{"2", "3", "4", "–"}));
  ASSERT_EQ(pivots[0].row_names.size(), 10u);
  EXPECT_EQ(pivots[0].row_names[0], "A");
  EXPECT_EQ(pivots[0].row_names[1], "B");
  EXPECT_TRUE(pivots[0].cells.contains({"A", "–"}));
}

TEST_F(PivotTest, AGivenCheckpointsNameStandsInItsColumnWhereItsRowSaysAnother) {
  std::vector<SweepRecord> records = test::example_sweep();
  records.resize(2);
  records.push_back(test::given_checkpoint(records[1], "A"));
  use(records);
  const auto by_bits = make_pivots(entries_, {"model"}, {"bits"});
  ASSERT_EQ(by_bits.size(), 1u);
  EXPECT_EQ(by_bits[0].column_names, (std::vector<std::string>{"4", "A"}));
  EXPECT_EQ(pivot_table(by_bits[0], {.rows = {"model"}, .columns = {"bits"}}).columns[2], "A");
  const auto by_recipe = make_pivots(entries_, {"recipe"}, {"bits"});
  EXPECT_EQ(by_recipe.at(0).column_names, (std::vector<std::string>{"4", "–"}));
}

TEST_F(PivotTest, AGivenCheckpointsRowSaysWhatElseItHas) {
  std::vector<SweepRecord> records = test::example_sweep();
  records.resize(2);
  records.push_back(test::given_checkpoint(records[1], "A"));
  records.back().labels.emplace_back("use", "test");
  use(records);
  const auto pivots = make_pivots(entries_, {"weighting", "use"}, {"bits"});
  EXPECT_TRUE(pivots.at(0).cells.contains({"recipe A + use test", "–"}));
}

TEST_F(PivotTest, AGivenCheckpointAloneIsNoReasonForColumnsOfBits) {
  std::vector<SweepRecord> records = test::example_sweep();
  records.resize(9);  // of 4 bits
  records.push_back(test::given_checkpoint(records[1], "A"));
  use(records);
  EXPECT_EQ(default_pivot(entries_).rows, (SettingNames{"recipe"}));
  EXPECT_EQ(default_pivot(entries_).columns, (SettingNames{"model"}));
}

TEST_F(PivotTest, ATablesTitleSaysWhichSettingItsCellsLack) {
  std::vector<SweepRecord> records = test::example_sweep();
  for (SweepRecord& record : records) {
    std::string& recipe = record.configuration[1].second;
    constexpr std::string_view kNone = R"("scaling":"none",)";
    const std::size_t place = recipe.find(kNone);
    if (place != std::string::npos) recipe.erase(place, kNone.size());
  }
  use(records);
  const PivotSettings settings{.rows = {"weighting", "shifting"}, .columns = {"bits"}};
  const auto pivots = make_pivots(entries_, settings.rows, settings.columns);
  ASSERT_EQ(pivots.size(), 2u);
  EXPECT_EQ(pivot_table(pivots[0], settings).title, "gpt2-novels, novels, blocks of 512, no scaling");
  EXPECT_EQ(pivot_table(pivots[1], settings).title, "gpt2-novels, novels, blocks of 512, scaling std");
}

TEST_F(PivotTest, WhatIsGivenForOneSideLeavesTheOther) {
  use(test::example_sweep());
  const PivotSettings suited = default_pivot(entries_);
  EXPECT_EQ(chosen_pivot(suited, {}).shown(), suited.shown());
  const PivotSettings by_shifting = chosen_pivot(suited, {.columns = {"shifting"}});
  EXPECT_EQ(by_shifting.rows, (SettingNames{"weighting", "scaling"}));
  EXPECT_EQ(by_shifting.columns, (SettingNames{"shifting"}));
  EXPECT_EQ(chosen_pivot(suited, {.rows = {"bits"}}).columns, (SettingNames{"model"}));
  EXPECT_EQ(chosen_pivot(suited, {.rows = {"bits", "model"}}).columns, (SettingNames{"recipe"}));
  EXPECT_EQ(chosen_pivot(suited, {.rows = {"bits"}, .columns = {"bits"}}).columns, (SettingNames{"bits"}));
}

TEST_F(PivotTest, ASettingStandsInRowsOrInColumnsOnce) {
  use(test::example_sweep());
  for (const auto& [rows, columns] : std::vector<std::pair<SettingNames, SettingNames>>{
           {{"bits"}, {"bits"}}, {{"bits", "bits"}, {"scaling"}}, {{"scaling"}, {"bits", "shifting", "bits"}}})
    EXPECT_TRUE(test::throws_with<InvalidArgument>(
        [&, &rows = rows, &columns = columns] { make_pivots(entries_, rows, columns); }, "'bits' is named twice"));
}

TEST_F(PivotTest, UnknownSettingsAreRefusedWithTheNearest) {
  use(test::example_sweep());
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { make_pivots(entries_, {"wieghting"}, {"bits"}); }, "'wieghting'",
                                                 "'weighting'"));
}

TEST(NaturalOrder, CountsNumbersAndPutsNoneFirst) {
  EXPECT_TRUE(natural_less("2", "10"));
  EXPECT_TRUE(natural_less("10", "none"));
  EXPECT_TRUE(natural_less("none", "absmax"));
  EXPECT_TRUE(natural_less("false", "true"));
  EXPECT_FALSE(natural_less("fisher", "fisher"));
}

TEST_F(PivotTest, CellsOfABudgetStandUnderItsBits) {
  std::vector<SweepRecord> records = test::example_sweep();
  for (const char* bits : {"2.8", "3.0"}) {
    SweepRecord record = records[1];  // of 4 bits by its defaults
    record.id[0] = bits[0];
    record.labels[1].second = std::string("budget ") + bits;
    std::string& recipe = record.configuration[1].second;
    recipe.insert(recipe.size() - 1, std::string(R"(,"budget":{"bits_per_weight":)") + bits + "}");
    records.push_back(record);
  }
  SweepRecord tuned = records[1];
  tuned.labels[1].second = "tuned";
  tuned.configuration[1].second.insert(tuned.configuration[1].second.size() - 1, R"(,"tuning":{"epochs":2})");
  records.push_back(tuned);
  use(records);
  const PivotSettings settings = default_pivot(entries_);
  EXPECT_EQ(settings.columns, SettingNames{"width"});
  const auto pivots = make_pivots(entries_, settings.rows, settings.columns);
  ASSERT_EQ(pivots.size(), 1u) << "one table";
  EXPECT_EQ(pivots[0].column_names, (std::vector<std::string>{"2", "2.8", "3", "4"}));
  // Rows say a budget, for there are cells of 3 bits without one.
  EXPECT_TRUE(pivots[0].cells.contains({"budget 2.8", "2.8"}));
  EXPECT_TRUE(pivots[0].cells.contains({"budget 3", "3"}));
  EXPECT_TRUE(pivots[0].cells.contains({"tuning", "4"}));
  EXPECT_EQ(pivot_table(pivots[0], settings).columns[2], "2.8 bits");
}

TEST_F(PivotTest, RowsDoNotRepeatABudgetThatItsColumnSays) {
  std::vector<SweepRecord> records = test::example_sweep();
  records.resize(3);  // of 4 bits, without and with shifting
  for (const std::size_t i : {1u, 2u})
    for (const char* bits : {"2.6", "3.2"}) {
      SweepRecord record = records[i];
      record.id[0] = bits[0];
      std::string& recipe = record.configuration[1].second;
      recipe.insert(recipe.size() - 1, std::string(R"(,"budget":{"bits_per_weight":)") + bits + "}");
      records.push_back(record);
    }
  use(records);
  const PivotSettings settings = default_pivot(entries_);
  EXPECT_EQ(settings.rows, SettingNames{"shifting"});
  const auto pivots = make_pivots(entries_, settings.rows, settings.columns);
  ASSERT_EQ(pivots.size(), 1u);
  EXPECT_EQ(pivots[0].column_names, (std::vector<std::string>{"2.6", "3.2", "4"}));
  EXPECT_EQ(pivots[0].cells.size(), 6u);
}

}  // namespace
}  // namespace nibble::eval
