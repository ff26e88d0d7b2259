#include "eval/report/pooled_texts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "eval/report/build_report.h"
#include "eval/report/report_input.h"
#include "eval/report/writers.h"
#include "tests/eval/report/example_sweep.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"

namespace nibble::eval {
namespace {

using test::near;

// The first cells of the example on texts "A" and "B" of one use, B with another number of tokens in each window.
struct PooledTexts : testing::Test {
  static constexpr std::size_t kCells = 4, kWindows = 6;
  static void set(Facts& facts, std::string_view name, const std::string& value) {
    for (auto& [key, old] : facts)
      if (key == name) old = value;
  }
  static SweepRecord on(SweepRecord record, char text,
                        const std::string& way = R"("protocol":"blocks","context":512)") {
    record.id[0] = text;
    record.id[1] = text == 'a' ? '0' : '1';
    set(record.labels, "evaluation", std::string("text ") + text);
    record.labels.emplace_back("use", "test");
    set(record.configuration, "evaluation", fmt::format(R"({{"tokens_hash":"{}",{}}})", text, way));
    CellMeasures& measures = *record.measures;
    measures.window_nll.resize(kWindows + (text == 'b' ? 2 : 0));
    measures.divergence.emplace();
    measures.divergence->largest = text == 'a' ? 1.0 : 2.0;
    measures.divergence->top1_agreement = text == 'a' ? 0.5 : 0.8;
    measures.window_tokens.clear();
    for (std::size_t w = 0; w < measures.window_nll.size(); ++w) {
      if (text == 'b') measures.window_nll[w] += 0.25;
      measures.divergence->window_nats.push_back(1e-3 * static_cast<double>(w + 1) * measures.window_nll[w]);
      if (text == 'b') measures.window_tokens.push_back(100 + 10 * w);
    }
    measures.tokens_scored = text == 'a' ? 511 * kWindows : 8 * 100 + 10 * 28;
    return record;
  }
  ReportInput input(const std::vector<SweepRecord>& records) {
    test::write_records(directory_.path(), records);
    ReportInput input = load_report_input({directory_.path()});
    pool_texts(input);
    compare_to_baseline(input, "");
    return input;
  }
  std::vector<SweepRecord> both() const {
    std::vector<SweepRecord> records;
    for (std::size_t i = 0; i < kCells; ++i)
      for (const char text : {'a', 'b'}) records.push_back(on(sweep_[i], text));
    return records;
  }
  const std::vector<SweepRecord> sweep_ = test::example_sweep();
  test::TempDir directory_;
};

TEST_F(PooledTexts, FiguresAreThoseOfAllWindows) {
  const ReportInput all = input(both());
  ASSERT_EQ(all.entries.size(), 2 * kCells);
  ASSERT_EQ(all.pooled.size(), kCells);
  for (const Entry& pooled : all.pooled) {
    EXPECT_EQ(pooled.setting("evaluation"), "test, 2 texts together");
    const CellMeasures& measures = *pooled.record.measures;
    double loss = 0.0, nats = 0.0, tokens = 0.0, agreeing = 0.0;
    std::size_t windows = 0;
    for (const Entry& entry : all.entries) {
      if (entry.setting("recipe") != pooled.setting("recipe")) continue;
      const CellMeasures& one = *entry.record.measures;
      for (std::size_t w = 0; w < one.window_nll.size(); ++w) {
        const double count = one.window_tokens.empty() ? 511.0 : static_cast<double>(one.window_tokens[w]);
        loss += one.window_nll[w];  // the example does not say `average`, so a mean over windows
        nats += count * one.divergence->window_nats[w];
        tokens += count;
        ++windows;
      }
      agreeing += static_cast<double>(one.tokens_scored) * one.divergence->top1_agreement;
    }
    EXPECT_EQ(windows, 2 * kWindows + 2);
    // A few sums of 14 numbers, in other orders.
    EXPECT_TRUE(near(measures.nll_nats_per_token, loss / static_cast<double>(windows), {.rel = 1e-14}));
    EXPECT_TRUE(near(measures.perplexity, std::exp(loss / static_cast<double>(windows)), {.rel = 1e-13}));
    ASSERT_TRUE(measures.divergence);
    EXPECT_TRUE(near(measures.divergence->nats_per_token, nats / tokens, {.rel = 1e-14}));
    EXPECT_TRUE(near(measures.divergence->top1_agreement, agreeing / tokens, {.rel = 1e-14}));
    EXPECT_EQ(measures.divergence->largest, 2.0);
    EXPECT_EQ(measures.tokens_scored, 511 * kWindows + 1080);
    EXPECT_GT(measures.perplexity_stderr.value(), 0.0);
    EXPECT_EQ(pooled.is_baseline, fact(pooled.record.configuration, "recipe") == "null");
    if (!pooled.is_baseline) {
      EXPECT_EQ(pooled.to_baseline.value().pairs, windows);
    }
  }
}

TEST_F(PooledTexts, StandInTheReportAndNotAmongItsCells) {
  const ReportInput all = input(both());
  const std::string page = markdown_report(build_report(all, {}));
  EXPECT_THAT(page, testing::HasSubstr("gpt2-novels, test, 2 texts together"));
  EXPECT_THAT(page, testing::HasSubstr(fmt::format("{} cells of 1 model, 2 evaluations", 2 * kCells)));
  EXPECT_THAT(csv_report(all), testing::Not(testing::HasSubstr("together")));
}

TEST_F(PooledTexts, ACellThatLacksATextHasNone) {
  auto records = both();
  records.pop_back();
  EXPECT_EQ(input(records).pooled.size(), kCells - 1);
}

TEST_F(PooledTexts, TextsThatWereMeasuredInAnotherWayAreNotOfOneKind) {
  std::vector<SweepRecord> records;
  for (std::size_t i = 0; i < kCells; ++i) {
    records.push_back(on(sweep_[i], 'a'));
    records.push_back(on(sweep_[i], 'b', R"("protocol":"blocks","context":256)"));
  }
  EXPECT_TRUE(input(records).pooled.empty());
}

TEST_F(PooledTexts, TextsWithWindowsInCommonAreNotTakenTogether) {
  const auto refused = [&](const std::vector<SweepRecord>& records) {
    const ReportInput all = input(records);
    EXPECT_TRUE(all.pooled.empty());
    EXPECT_THAT(all.warnings, testing::ElementsAre(testing::HasSubstr("texts for test have windows in common")));
  };
  std::vector<SweepRecord> records = both();
  for (std::size_t i = 1; i < records.size(); i += 2)  // B begins as A does
    records[i].measures->window_nll[0] = records[i - 1].measures->window_nll[0];
  refused(records);
  records = both();
  for (SweepRecord& record : records)
    record.sources.emplace_back("evaluation",
                                record.id[0] == 'a' ? R"({"text":["x.txt","y.txt"]})" : R"({"text":["y.txt"]})");
  refused(records);
  for (SweepRecord& record : records)
    if (record.id[0] == 'b') set(record.sources, "evaluation", R"({"text":["./somewhere/../y.txt"]})");
  refused(records);
}

TEST_F(PooledTexts, TwoTextsOfOneNameAreNotTakenTogether) {
  auto records = both();
  for (SweepRecord& record : records) set(record.labels, "evaluation", "text");
  records.push_back(on(sweep_.front(), 'c'));
  EXPECT_TRUE(input(records).pooled.empty());
}

}  // namespace
}  // namespace nibble::eval
