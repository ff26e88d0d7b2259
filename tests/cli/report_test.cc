#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/nibble.h"
#include "tests/eval/report/example_sweep.h"

namespace nibble::test {
namespace {

using eval::SweepRecord;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ReportCommand : public testing::Test {
 protected:
  ReportCommand() { std::filesystem::create_directory(results_); }

  std::string path(std::string_view name) const { return (directory_ / name).string(); }
  ProgramRun report(std::vector<std::string> options) const {
    options.insert(options.begin(), {"report", results_.string()});
    return nibble(options);
  }
  // The text of one output, of a run that must succeed.
  std::string output(const std::string& name, std::vector<std::string> options = {}) const {
    options.insert(options.end(), {"-o", path(name)});
    const ProgramRun run = report(options);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.exit_code == 0 ? read_file(directory_ / name) : "";
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path()))
      if (entry.is_regular_file()) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  TempDir directory_;
  std::filesystem::path results_ = directory_ / "results";
};

TEST_F(ReportCommand, WritesEveryFormatInOneRun) {
  write_records(results_, example_sweep());
  const auto result = nibble_json({"report", results_.string(), "-o", path("r.html"), "-o", path("r.md"), "-o",
                                   path("r.tex"), "-o", path("r.csv")});
  EXPECT_EQ(result["cells"], 25);
  EXPECT_EQ(result["failed"], 0);
  EXPECT_TRUE(result["passed_over"].empty());
  const std::map<std::string, std::string> signs = {{"r.html", "<!DOCTYPE html>"},
                                                    {"r.md", "# Quantization sweep"},
                                                    {"r.tex", "\\begin{longtable}"},
                                                    {"r.csv", "\"id\",\"status\""}};
  ASSERT_EQ(result["written"].size(), signs.size());
  for (const auto& written : result["written"]) {
    const std::filesystem::path file = written["path"].get<std::string>();
    const std::string text = read_file(file);
    EXPECT_EQ(text.size(), written["bytes"]);
    EXPECT_THAT(text, HasSubstr(signs.at(file.filename().string())));
  }
  EXPECT_EQ(files(), (std::vector<std::string>{"r.csv", "r.html", "r.md", "r.tex"}));
}

TEST_F(ReportCommand, TablesArePivotedByTheSettingsGiven) {
  write_records(results_, example_sweep());
  const std::string text =
      output("r.md", {"--rows", "weighting,scaling", "--columns", "shifting", "--title", "Nights"});
  EXPECT_THAT(text, AllOf(HasSubstr("# Nights"), HasSubstr("| weighting, scaling | false | true |"),
                          HasSubstr("weighting, scaling by shifting"), HasSubstr("### gpt2-novels")));
  const ProgramRun unknown = report({"-o", path("x.md"), "--rows", "weightin"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("weighting"));
}

TEST_F(ReportCommand, DifferencesAreToTheBaselineGiven) {
  write_records(results_, example_sweep());
  const std::string name = "bits=4 weighting=none scaling=none shifting=false";
  const std::string own = output("own.md"), other = output("other.md", {"--baseline", name});
  EXPECT_THAT(own, Not(HasSubstr("(baseline)")));  // the float model stands in the list, not in the grid
  EXPECT_THAT(other, HasSubstr("(baseline)"));
  const ProgramRun unknown = report({"-o", path("x.md"), "--baseline", "nobody"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("'nobody'"), HasSubstr("'float'")));
}

TEST_F(ReportCommand, PublishedFiguresStandBesideTheMeasuredOnes) {
  write_records(results_, example_sweep());
  write_file(directory_ / "published.json",
             R"({"title": "A post", "source": "somebody, 2024", "tables": [
                 {"title": "novels", "evaluation": "novels", "figures": [
                   {"model": "gpt2-novels", "recipe": "float", "perplexity": 100.5},
                   {"model": "gpt2-xl", "recipe": "float", "perplexity": 14.7951}]},
                 {"title": "another text", "evaluation": "C4", "figures": [
                   {"model": "gpt2-novels", "recipe": "float", "perplexity": 7.08}]}]})");
  const std::string text = output("r.md", {"--published", path("published.json")});
  EXPECT_THAT(text,
              AllOf(HasSubstr("### A post: novels"), HasSubstr("published 100.5, difference +"),
                    HasSubstr("– (published 14.7951)"), HasSubstr("somebody, 2024"), HasSubstr("– (published 7.08)")));
}

TEST_F(ReportCommand, MeasuredCellsAreCountedAgainstWhatWasExpected) {
  write_records(results_, example_sweep());
  const auto expecting = [&](const std::string& more) {
    write_file(
        directory_ / "published.json",
        R"({"title": "A post", "source": "somebody", "tables": [{"title": "novels", "why": "a guess", "figures": [
                   {"model": "gpt2-novels", "recipe": "float", "perplexity": 117)" +
            more + R"(}, {"model": "gpt2-xl", "recipe": "float", "perplexity": 14.8)" + more + "}]}]}");
    return nibble_json({"report", results_.string(), "-o", path("r.md"), "--published", path("published.json")});
  };
  EXPECT_FALSE(expecting("").contains("expected")) << "where nothing is expected nothing is counted";
  const auto result = expecting(R"(, "expected": [1, 1e6])");
  EXPECT_EQ(result["expected"], nlohmann::json::parse(R"({"inside": 1, "measured": 1, "missing": 1})"));
  const ProgramRun run = report({"-o", path("r.md"), "--published", path("published.json")});
  EXPECT_THAT(run.out, HasSubstr("1 of 1 inside what was expected, 1 more not measured\n"));
  write_file(directory_ / "published.json", R"({"title": "A post", "source": "s", "tables": [{"title": "t", "why": "w",
      "figures": [{"model": "gpt2-novels", "recipe": "float", "expected": [3, 2]}]}]})");
  const ProgramRun refused = report({"-o", path("x.md"), "--published", path("published.json")});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("published.json"), HasSubstr("[3, 2]")));
}

TEST_F(ReportCommand, SpeedsOfAFileAreDrawnOverContext) {
  for (const auto& [name, cache] : {std::pair("f32", "f32"), std::pair("int8", "int8")}) {
    const auto speeds = nibble_json({"speed", demo_path("llama-demo"), "--context", "16,32", "--generate", "2",
                                     "--repeat", "1", "--skip-limits", "--cache-type", cache, "--quiet"});
    write_file(results_ / (std::string(name) + ".json"), speeds.dump());
  }
  const std::string page = output("r.html");
  EXPECT_THAT(page, AllOf(HasSubstr("<h3>Speed over context"),
                          HasSubstr("llama-demo, float16, speed, exact, cache state"
                                    " int8: context 16,"),
                          Not(HasSubstr(">nan"))));
  const std::string csv = output("r.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 2 * 2);
  EXPECT_THAT(csv, AllOf(HasSubstr("\"ok\",\"llama-demo\""), HasSubstr(",16,13,2,")));

  write_file(results_ / "damaged.json", R"({"speeds": [{"context": -1}]})");
  const auto result = nibble_json({"report", results_.string(), "-o", path("r.md")});
  ASSERT_EQ(result["passed_over"].size(), 1u);
  EXPECT_THAT(result["passed_over"][0].get<std::string>(), AllOf(HasSubstr("damaged.json"), HasSubstr("'context'")));
}

TEST_F(ReportCommand, MixedCommitsAreFlaggedInEveryFormat) {
  std::vector<SweepRecord> records = example_sweep();
  records[3].environment[0].second = "another one";
  write_records(results_, records);
  const std::string sign = "2 different values of ";
  for (const char* name : {"r.html", "r.md", "r.tex"})
    EXPECT_THAT(output(name), AllOf(HasSubstr(sign), HasSubstr("another one"))) << name;
  EXPECT_THAT(output("r.csv"), HasSubstr("\"another one\""));
}

TEST_F(ReportCommand, HostileRecordsAreReportedAndHarmless) {
  std::vector<SweepRecord> records = example_sweep();
  records[1].labels[1].second = "<script>alert(1)</script>\\input{/etc/passwd}";
  write_records(results_, records);
  write_file(results_ / (std::string(32, 'a') + ".json"), "{\"format\": \"nibble sweep record\"");
  write_file(results_ / (std::string(32, 'b') + ".json"), std::string(100'000, '['));
  write_file(results_ / (std::string(32, 'c') + ".json"), std::string("\0\xff\xfe", 3));
  const auto result = nibble_json({"report", results_.string(), "-o", path("r.html"), "-o", path("r.tex")});
  EXPECT_EQ(result["cells"], 25);
  EXPECT_EQ(result["passed_over"].size(), 3u);
  EXPECT_THAT(read_file(directory_ / "r.html"), Not(HasSubstr("<script>alert")));
  EXPECT_THAT(read_file(directory_ / "r.tex"), Not(HasSubstr("\\input")));
}

TEST_F(ReportCommand, ADirectoryWithoutRecordsIsRefusedAndNothingIsWritten) {
  const ProgramRun run = report({"-o", path("r.html")});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("nothing to report"));
  EXPECT_TRUE(files().empty());
}

TEST_F(ReportCommand, AMistakeInOneOutputLeavesTheOthersAsTheyWere) {
  write_records(results_, example_sweep());
  write_file(directory_ / "old.md", "yesterday's");
  const ProgramRun run = report({"-o", path("old.md"), "-o", path("r.docx")});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, AllOf(HasSubstr("r.docx"), HasSubstr(".tex")));
  EXPECT_EQ(read_file(directory_ / "old.md"), "yesterday's");
  std::filesystem::create_directory(directory_ / "taken.md");
  for (const auto& [other, code] : {std::pair(path("old.md/r.md"), 3), std::pair(std::string("/dev/full/r.md"), 3),
                                    std::pair(path("taken.md"), 2), std::pair(path("results/../old.md"), 2)}) {
    const ProgramRun wrong = report({"-o", path("old.md"), "-o", other});
    EXPECT_EQ(wrong.exit_code, code) << other;
    EXPECT_THAT(wrong.err, HasSubstr(other));
    EXPECT_TRUE(read_file(directory_ / "old.md") == "yesterday's") << other;
  }
  EXPECT_EQ(files(), (std::vector<std::string>{"old.md"}));
}

TEST_F(ReportCommand, MakesTheDirectoriesOfItsOutputs) {
  write_records(results_, example_sweep());
  EXPECT_EQ(report({"-o", path("new/and/newer/r.md")}).exit_code, 0);
  EXPECT_THAT(read_file(directory_ / "new/and/newer/r.md"), HasSubstr("#"));
}

TEST_F(ReportCommand, WhatACsvAloneHasNoUseForIsRefused) {
  write_records(results_, example_sweep());
  for (const char* option : {"--title", "--rows", "--columns", "--over"}) {
    const ProgramRun run = report({"-o", path("r.csv"), option, "bits"});
    EXPECT_EQ(run.exit_code, 2) << option;
    EXPECT_THAT(run.err, HasSubstr(option));
  }
  EXPECT_EQ(report({"-o", path("r.csv"), "-o", path("r.md"), "--title", "both"}).exit_code, 0);
}

}  // namespace
}  // namespace nibble::test
