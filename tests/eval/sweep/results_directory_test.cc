#include "eval/sweep/results_directory.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

using Names = std::vector<std::string>;

// A sweep of one cell: a recipe of this name.
SweepPlan plan_of(const std::string& file, const std::string& id, const std::string& name) {
  PlannedCell cell;
  cell.record.id = id;
  cell.record.labels = {{"model", "m"}, {"recipe", name}, {"evaluation", "e"}};
  SweepPlan plan;
  plan.file = file;
  plan.jobs.emplace_back().cells.push_back(cell);
  return plan;
}

Names names_in(const ResultsDirectory& results) {
  Names names;
  for (const auto& cell : results.announced()) names.push_back(cell.name);
  return names;
}

TEST(ResultsDirectory, TheCellsOfAFileTakeThePlaceOfThoseItHadBefore) {
  const test::TempDir temp;
  const ResultsDirectory results(temp / "results");
  results.announce(plan_of("/a.yaml", "1", "one"));
  results.announce(plan_of("/b.yaml", "2", "two"));
  results.announce(plan_of("", "3", "three"));  // none that could be read again
  results.announce(plan_of("", "4", "four"));
  EXPECT_EQ(names_in(results), (Names{"m · four · e", "m · three · e", "m · two · e", "m · one · e"}));
  results.announce(plan_of("/a.yaml", "1", "renamed"));
  EXPECT_EQ(names_in(results), (Names{"m · renamed · e", "m · four · e", "m · three · e", "m · two · e"}));
  results.announce(plan_of("/b.yaml", "5", "another"));
  EXPECT_EQ(names_in(results), (Names{"m · another · e", "m · renamed · e", "m · four · e", "m · three · e"}));
}

TEST(ResultsDirectory, IsNotThatOfACheckpoint) {
  const test::TempDir temp;
  std::filesystem::create_directory(temp / "model");
  EXPECT_NO_THROW(require_no_checkpoint(temp / "model"));
  test::write_file(temp / "model" / "config.json", "{}");
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { ResultsDirectory{temp / "model"}; }, "model' holds a checkpoint",
                                                 "choose another"));
  EXPECT_FALSE(std::filesystem::exists(temp / "model" / ".sweep"));
}

TEST(ResultsDirectory, ACellOfSeveralSweepsHasTheNameOfTheLast) {
  const test::TempDir temp;
  const ResultsDirectory results(temp / "results");
  const SweepPlan a = plan_of("/a.yaml", "1", "one"), b = plan_of("/b.yaml", "1", "first");
  for (const SweepPlan* plan : {&a, &b, &a}) {
    results.announce(*plan);
    EXPECT_EQ(names_in(results), Names{cell_name(plan->jobs[0].cells[0].record)});
  }
}

TEST(ResultsDirectory, ShardsOfASweepAddUpAndOthersAreNotWaitedFor) {
  const test::TempDir temp;
  const ResultsDirectory results(temp / "results");
  SweepPlan plan = plan_of("/a.yaml", "1", "one");
  plan.jobs.push_back(plan_of("", "2", "two").jobs[0]);
  plan.jobs.push_back(plan_of("", "3", "three").jobs[0]);
  results.announce(plan, {.index = 1, .count = 2});
  EXPECT_EQ(names_in(results), (Names{"m · one · e", "m · three · e"}));
  results.announce(plan, {.index = 2, .count = 2});
  EXPECT_EQ(names_in(results), (Names{"m · two · e", "m · one · e", "m · three · e"}));
  results.announce(plan);
  results.announce(plan, {.index = 3, .count = 3});  // beside one who does the whole
  EXPECT_EQ(names_in(results), (Names{"m · three · e", "m · one · e", "m · two · e"}));
  plan.jobs.erase(plan.jobs.begin());
  results.announce(plan, {.index = 1, .count = 2});
  EXPECT_EQ(names_in(results), (Names{"m · two · e", "m · three · e"}))
      << "what had the first cell is of an older file";
}

}  // namespace
}  // namespace nibble::eval
