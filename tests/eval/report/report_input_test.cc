#include "eval/report/report_input.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/eval/report/example_sweep.h"
#include "tests/support/files.h"

namespace nibble::eval {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct ReportInputTest : testing::Test {
  ReportInput load(const std::vector<SweepRecord>& records) {
    test::write_records(directory_.path(), records);
    return load_report_input({directory_.path()});
  }
  std::vector<SweepRecord> records_ = [] {
    auto records = test::example_sweep();
    records.resize(3);
    return records;
  }();
  test::TempDir directory_;
};

TEST_F(ReportInputTest, CheckpointsOfOneNameAreModelsOfTheirOwn) {
  EXPECT_THAT(load(records_).warnings, IsEmpty());
  records_[2].configuration[0].second = R"({"fingerprint":"0123456789abcdef"})";
  const ReportInput input = load(records_);
  EXPECT_THAT(input.warnings, ElementsAre(HasSubstr("2 checkpoints are called 'gpt2-novels'")));
  std::vector<std::string> models;
  for (const Entry& entry : input.entries) models.emplace_back(entry.setting("model"));
  EXPECT_THAT(models, ElementsAre("gpt2-novels (01234567)", "gpt2-novels (5f1e)", "gpt2-novels (5f1e)"));
}

TEST_F(ReportInputTest, ARenamedRecordIsARecord) {
  test::write_records(directory_.path(), {test::example_sweep()[0]});
  std::filesystem::rename(directory_ / (test::example_sweep()[0].id + ".json"), directory_ / "mine.json");
  for (const std::filesystem::path& where : {directory_.path(), directory_ / "mine.json"}) {
    const ReportInput input = load_report_input({where});
    EXPECT_EQ(input.entries.size(), 1u);
    EXPECT_TRUE(input.problems.empty());
    EXPECT_EQ(input.entries.at(0).record.command, "nibble sweep --repeat " + (directory_ / "mine.json").string());
  }
}

TEST_F(ReportInputTest, AMeasurementThatComesTwiceCountsOnce) {
  const std::filesystem::path one = directory_.path() / "one", copies = directory_.path() / "copies";
  std::filesystem::create_directories(one);
  std::filesystem::create_directories(copies);
  const std::string spread = R"({"median": 1, "min": 1, "max": 1})",
                    row = R"([{"context": 8, "prompt": 4, "generate": 3, "cache_bytes": 0, "ttft_seconds": )" + spread +
                          R"(, "extend_tokens_per_second": )" + spread + "}]";
  test::write_file(one / "speed.json", R"({"model": "m", "method": "int4", "speeds": )" + row + "}");
  test::write_file(one / "storage.json", R"({"model": "m", "storage_study": [{"stream": "codes", "results": []}]})");
  test::write_file(one / "damaged.json", R"({"speeds": [{"context": -1}]})");
  std::filesystem::copy_file(one / "speed.json", copies / "renamed.json");
  const ReportInput input = load_report_input({one, one / "../one/speed.json", one, copies});
  EXPECT_EQ(input.speeds.size(), 1u);
  EXPECT_EQ(input.storage.size(), 1u);
  EXPECT_THAT(input.problems, testing::SizeIs(1));
  test::write_file(copies / "renamed.json", R"({"model": "other", "method": "int4", "speeds": )" + row + "}");
  EXPECT_EQ(load_report_input({one, copies}).speeds.size(), 2u);
}

TEST_F(ReportInputTest, WhatQuantizingWarnedOfIsSaidOnceForEachModel) {
  for (SweepRecord& record : records_) record.warnings = {"a rare expert"};
  records_[1].labels[1].second = records_[2].labels[1].second = "one recipe";
  const auto warnings = load(records_).warnings;
  EXPECT_THAT(warnings, testing::SizeIs(2));
  EXPECT_THAT(warnings, testing::Contains("gpt2-novels, one recipe: a rare expert"));
}

TEST_F(ReportInputTest, ACellThatWasMeasuredAgainWithTheDivergenceCountsOnce) {
  SweepRecord again = records_[1];
  again.id[0] = 'f';
  std::string& evaluation = again.configuration[3].second;
  evaluation.insert(evaluation.size() - 1, R"(,"divergence":true)");
  again.measures->divergence.emplace();
  records_.push_back(again);
  ReportInput input = load(records_);
  EXPECT_EQ(input.entries.size(), 3u);
  EXPECT_EQ(std::ranges::count_if(input.entries, [&](const Entry& e) { return e.record.id == again.id; }), 1);
  // In an evaluation of another name it is a cell of that.
  records_[3].labels[2].second = "elsewhere";
  EXPECT_EQ(load(records_).entries.size(), 4u);
}

TEST_F(ReportInputTest, OtherNamesOfACellThatCountsOnceAreTold) {
  test::write_records(directory_.path(), records_);
  SweepRecord again = records_[1];
  again.labels[0].second = "copy";
  again.labels[2].second = "elsewhere";
  std::filesystem::create_directories(directory_ / "other");
  test::write_records(directory_ / "other", {again});
  const ReportInput input = load_report_input({directory_.path(), directory_ / "other", directory_ / "other"});
  EXPECT_EQ(input.entries.size(), 3u);
  EXPECT_THAT(input.warnings,
              ElementsAre(HasSubstr("model 'copy' says the same as 'gpt2-novels'"),
                          HasSubstr("evaluation 'elsewhere' says the same as 'novels, blocks of 512'")));
}

TEST_F(ReportInputTest, OfSeveralBaselinesOneIsTakenAndTheOthersAreCompared) {
  SweepRecord other = records_[1];
  other.id[0] = 'f';
  other.configuration[2].second = R"({"text":"another","samples":64})";
  for (double& nll : other.measures->window_nll) nll += 0.5;
  records_.push_back(other);
  ReportInput input = load(records_);
  compare_to_baseline(input, records_[1].labels[1].second);
  std::size_t baselines = 0, compared = 0;
  for (const Entry& entry : input.entries) {
    baselines += entry.is_baseline;
    compared += entry.to_baseline.has_value();
  }
  EXPECT_EQ(baselines, 1u);
  EXPECT_EQ(compared, 3u);
  EXPECT_THAT(input.warnings, ElementsAre(HasSubstr("2 cells of gpt2-novels, novels, blocks of 512 are called")));
}

}  // namespace
}  // namespace nibble::eval
