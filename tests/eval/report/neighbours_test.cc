#include "eval/report/neighbours.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "eval/report/build_report.h"
#include "eval/report/report_input.h"
#include "tests/eval/report/example_sweep.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"

namespace nibble::eval {
namespace {

using test::near;

constexpr std::size_t kFewest = kRunWindows * kFewestRuns;
constexpr test::Bound kSummed{.rel = 1e-12};  // sums of some hundred doubles, in another order

double wave(std::size_t i) { return 1.0 + 0.3 * std::sin(0.9 * static_cast<double>(i)); }

TEST(ErrorOfRuns, WindowsOfARunThatAreTheSameTellAsMuchAsOne) {
  std::vector<double> windows;
  for (std::size_t i = 0; i < kFewest; ++i) windows.push_back(wave(i / kRunWindows));
  // Both sums of squares are those of the runs' means, one of them kRunWindows times: what is left are degrees of
  // freedom.
  const double expected = std::sqrt((kFewest - 1.0) / (kFewestRuns - 1.0));
  EXPECT_TRUE(near(error_of_runs(windows).value(), expected, kSummed));
}

TEST(ErrorOfRuns, IsOfWeightedMeansOfWholeRuns) {
  std::vector<double> windows;
  std::vector<std::uint64_t> weights;
  for (std::size_t i = 0; i < kFewest + 3; ++i) {  // three windows after the last run
    windows.push_back(i < kFewest ? wave(i) : 100.0);
    weights.push_back(i < kFewest ? 100 + 7 * (i % 5) : 100'000);
  }
  // s² = Σ n² (m − R)² / ((Σ n)² − Σ n²), of windows and of runs.
  const auto squared_error = [](const std::vector<double>& m, const std::vector<double>& n) {
    double total = 0.0, sum = 0.0, squares = 0.0, deviations = 0.0;
    for (std::size_t i = 0; i < m.size(); ++i) total += n[i], sum += n[i] * m[i], squares += n[i] * n[i];
    for (std::size_t i = 0; i < m.size(); ++i) deviations += n[i] * n[i] * (m[i] - sum / total) * (m[i] - sum / total);
    return deviations / (total * total - squares);
  };
  std::vector<double> values, tokens, of_runs(kFewestRuns), tokens_of_runs(kFewestRuns);
  for (std::size_t i = 0; i < kFewest; ++i) {
    values.push_back(windows[i]);
    tokens.push_back(static_cast<double>(weights[i]));
    of_runs[i / kRunWindows] += tokens[i] * values[i];
    tokens_of_runs[i / kRunWindows] += tokens[i];
  }
  for (std::size_t run = 0; run < kFewestRuns; ++run) of_runs[run] /= tokens_of_runs[run];
  const double expected = std::sqrt(squared_error(of_runs, tokens_of_runs) / squared_error(values, tokens));
  EXPECT_TRUE(near(error_of_runs(windows, weights).value(), expected, kSummed));
}

TEST(ErrorOfRuns, SaysNothingOfShortTextsAndOfWindowsThatDoNotDiffer) {
  std::vector<double> windows(kFewest);
  for (std::size_t i = 0; i < kFewest; ++i) windows[i] = wave(i);
  EXPECT_TRUE(error_of_runs(windows));
  EXPECT_FALSE(error_of_runs(std::span(windows).first(kFewest - 1)));
  EXPECT_FALSE(error_of_runs(windows, std::vector<std::uint64_t>(kFewest - 1, 1)));
  EXPECT_FALSE(error_of_runs(std::vector<double>(kFewest, 0.5)));
  windows[5] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(error_of_runs(windows));
}

// Two quantized cells and the float model, of `windows` windows each.
Entries entries_of(ReportInput& input, std::size_t windows) {
  Entries entries;
  for (std::size_t c = 0; c < 3; ++c) {
    Entry& entry = input.entries.at(c);
    CellMeasures& measures = *entry.record.measures;
    measures.window_nll.clear();
    for (std::size_t w = 0; w < windows; ++w)
      measures.window_nll.push_back(wave(w / kRunWindows) + static_cast<double>(c) * wave(w));
    entries.push_back(&entry);
  }
  return entries;
}

TEST(Neighbours, TextNamesMediansOfFiguresAndOfDifferences) {
  const test::TempDir directory;
  test::write_records(directory.path(), test::example_sweep());
  ReportInput input = load_report_input({directory.path()});
  const Entries entries = entries_of(input, kFewest);
  std::vector<const Entry*> quantized;
  for (const Entry* entry : entries)
    if (fact(entry->record.configuration, "recipe") != "null") quantized.push_back(entry);
  ASSERT_GE(quantized.size(), 2U);
  EXPECT_THAT(neighbours_text(entries),
              testing::AllOf(testing::HasSubstr("by means of 8 in a row errors are "),
                             testing::HasSubstr("those of differences from the lowest "),
                             testing::HasSubstr(fmt::format("(medians of {} cells).", quantized.size()))));
  // One cell has no difference, and its own ratio is the median.
  const Entries one{quantized[0]};
  EXPECT_EQ(
      neighbours_text(one),
      fmt::format(" Windows of a text are neighbours: by means of 8 in a row errors are {:.2f} times the printed ones.",
                  error_of_runs(quantized[0]->record.measures->window_nll).value()));
  EXPECT_EQ(neighbours_text(entries_of(input, kFewest - 1)), "");
}

TEST(Neighbours, NothingIsSaidOfAnEvaluationOfSeveralFiles) {
  const test::TempDir directory;
  test::write_records(directory.path(), test::example_sweep());
  ReportInput input = load_report_input({directory.path()});
  const Entries entries = entries_of(input, kFewest);
  ASSERT_NE(neighbours_text(entries), "");
  for (Entry& entry : input.entries)
    set_fact(entry.record.configuration, "evaluation", R"({"protocol":"blocks","text_ends":[1000,2000]})");
  EXPECT_EQ(neighbours_text(entries), "");
}

TEST(Neighbours, StandAboveAllCells) {
  const test::TempDir directory;
  std::vector<SweepRecord> records = test::example_sweep();
  for (SweepRecord& record : records) {
    std::vector<double>& windows = record.measures->window_nll;
    const std::size_t given = windows.size();
    for (std::size_t w = given; w < kFewest; ++w) windows.push_back(windows[w % given]);
  }
  test::write_records(directory.path(), records);
  const Report report = build_report(load_report_input({directory.path()}), {});
  for (const Section& section : report.sections) {
    if (section.title != "All cells") continue;
    EXPECT_THAT(std::get<ReportTable>(section.items.at(0)).caption,
                testing::HasSubstr("Windows of a text are neighbours"));
    return;
  }
  FAIL() << "no section 'All cells'";
}

}  // namespace
}  // namespace nibble::eval
