#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/random.h"
#include "core/text/estimate.h"
#include "core/weighted_mean.h"
#include "eval/report/build_report.h"
#include "eval/report/figures.h"
#include "eval/report/ranking.h"
#include "eval/report/report_input.h"
#include "eval/report/tables.h"
#include "eval/report/writers.h"
#include "tests/eval/report/example_sweep.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

using test::TempDir;
using test::throws_with;

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size()) ++found;
  return found;
}

const SpeedRecord kSomeSpeed{.context = 64,
                             .prompt = 32,
                             .generate = 8,
                             .cache_bytes = 6400,
                             .first_token_seconds = {0.5, 0.4, 0.6},
                             .tokens_per_second = {4321.0, 4000.0, 4500.0}};

class ReportTest : public testing::Test {
 protected:
  ReportInput load(const std::vector<SweepRecord>& records, const std::string& baseline = "") {
    test::write_records(directory_.path(), records);
    ReportInput input = load_report_input({directory_.path()});
    compare_to_baseline(input, baseline);
    return input;
  }
  std::string html(const std::vector<SweepRecord>& records, const ReportOptions& options = {}) {
    return html_report(build_report(load(records), options));
  }
  TempDir directory_;
};

TEST_F(ReportTest, TheAblationFitsOneSmallPageThatFetchesNothing) {
  const std::string page = html(test::example_sweep());
  EXPECT_LT(page.size(), 2'000'000u);
  EXPECT_EQ(count(page, "http"), 1u) << "but for http-equiv";
  EXPECT_EQ(count(page, "<link"), 0u);
  EXPECT_EQ(count(page, " src="), 0u);
  EXPECT_EQ(count(page, "<script"), 1u);
  EXPECT_NE(page.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_NE(page.find("@media print"), std::string::npos);
}

TEST_F(ReportTest, EveryFigureIsThereWithATableAndMarksForTheKeyboard) {
  const std::string page = html(test::example_sweep());
  for (const char* title : {"Loss over bits per weight", "What each single modification does",
                            "Error and sensitivity per layer", "Weights and their palettes"})
    EXPECT_GE(count(page, std::string("<h3>") + title), 1u) << title;
  EXPECT_GE(count(page, "<svg"), 9u);  // three, and for each of three widths two
  EXPECT_EQ(count(page, "<summary>As a table"), count(page, "<svg"));
  EXPECT_EQ(count(page, "<g class=\"item\" tabindex=\"0\""), count(page, "<g class=\"item\""));
}

TEST_F(ReportTest, TheSameRecordsGiveTheSamePage) {
  const std::string page = html(test::example_sweep());
  EXPECT_EQ(page, html(test::example_sweep()));
}

TEST_F(ReportTest, TheBestCellOfEachColumnIsMarked) {
  const ReportInput input = load(test::example_sweep());
  const Report report = build_report(input, {});
  const auto& table = std::get<ReportTable>(report.sections[0].items[0]);
  for (std::size_t column = 1; column < table.columns.size(); ++column) {
    std::size_t best = 0, undecided = 0;
    for (const auto& row : table.rows) {
      best += row[column].is_best;
      undecided += row[column].undecided;
      if (row[0].text == "weighting fisher + scaling std + shifting") {
        EXPECT_TRUE(row[column].is_best || row[column].undecided) << table.columns[column];
      }
    }
    // Alone and bold, or one of several that two standard errors do not tell apart.
    EXPECT_TRUE((best == 1 && undecided == 0) || (best == 0 && undecided >= 2)) << table.columns[column];
  }
  EXPECT_TRUE(table.warnings.empty());
}

// Gives every quantized cell a divergence of its windows: `kl` nats for all of them, but for noise that is the same in
// two records of one `seed`.
void diverge(SweepRecord& record, double kl, std::uint64_t seed) {
  Random random(seed);
  DivergenceMeasures divergence;
  for (std::size_t w = 0; w < record.measures->window_nll.size(); ++w)
    divergence.window_nats.push_back(kl * (1.0 + 0.2 * random.normal()));
  for (const double nats : divergence.window_nats)
    divergence.nats_per_token += nats / static_cast<double>(divergence.window_nats.size());
  divergence.stderr_nats = 0.2 * kl / std::sqrt(static_cast<double>(divergence.window_nats.size()));
  record.measures->divergence = divergence;
}

const Section& section_of(const Report& report, std::string_view title) {
  for (const Section& section : report.sections)
    if (section.title == title) return section;
  throw std::logic_error("no such section");
}

const ReportTable& list_of(const Report& report) {
  return std::get<ReportTable>(section_of(report, "All cells").items[0]);
}

const ReportTable& modifications_of(const Report& report) {
  const auto& figure = std::get<Figure>(section_of(report, "Figures").items.back());
  if (!figure.title.starts_with("What each")) throw std::logic_error("no modifications");
  return figure.data;
}

TEST_F(ReportTest, TheFrontTellsWhatErrorsLeaveUndecided) {
  std::vector<SweepRecord> records = test::example_sweep();
  for (std::size_t i = 1; i < records.size(); ++i) {
    diverge(records[i], 0.1 * std::pow(0.8, static_cast<double>(i)), i);
    // Fewest bits, and by far the least divergence, in two cells.
    records[i].measures->bits_per_weight = records.size() - i <= 2 ? 2.0 : 3.0;
  }
  SweepRecord &last = records.back(), &same = records[records.size() - 2];
  diverge(same, last.measures->divergence->nats_per_token * 1.0001, 77);
  const Report report = build_report(load(records), {});
  const auto& figure = std::get<Figure>(section_of(report, "Figures").items.front());
  ASSERT_TRUE(figure.title.starts_with("KL divergence")) << figure.title;
  std::size_t numbered = 0, undecided = 0, off = 0;
  for (const auto& row : figure.data.rows) {
    numbered += row[0].text == "1†";
    undecided += row[0].text == "†";
    off += row[0].text.empty();
  }
  EXPECT_EQ(numbered, 1u);
  EXPECT_EQ(undecided, 1u);
  EXPECT_EQ(off, records.size() - 3);
  EXPECT_EQ(count(figure.svg, "1†"), 1u);
}

TEST_F(ReportTest, CellsAreRankedByDivergenceWhereAllHaveIt) {
  std::vector<SweepRecord> records = test::example_sweep();
  // The other way round than the losses: the last cell of each width has the least divergence.
  for (std::size_t i = 1; i < records.size(); ++i) diverge(records[i], 0.1 * std::pow(0.8, static_cast<double>(i)), i);
  const Report report = build_report(load(records), {});
  const auto& pivot = std::get<ReportTable>(report.sections[0].items[0]);
  EXPECT_NE(pivot.caption.find("KL divergence from the float model"), std::string::npos);
  const ReportTable& list = list_of(report);
  ASSERT_GT(list.rows.size(), 2u);
  EXPECT_EQ(list.rows[0][0].text, "float");
  EXPECT_EQ(list.rows[1][0].text, records.back().labels[1].second);
  EXPECT_TRUE(list.rows[1][4].is_best);
  EXPECT_NE(list.rows[2][5].text.find(" ± "), std::string::npos);
  const std::string page = html(records);
  for (const char* title :
       {"KL divergence over bits per weight (", "KL divergence over bits per weight of the whole model",
        "Loss over bits per weight (", "Loss over bits per weight of the whole model"})
    EXPECT_EQ(count(page, std::string("<h3>") + title), 1u) << title;
  EXPECT_EQ(count(page, "<h3>Perplexity over"), 0u);

  // One cell without: perplexities, as before.
  records[5].measures->divergence.reset();
  const Report without = build_report(load(records), {});
  EXPECT_NE(list_of(without).rows[1][0].text, records.back().labels[1].second);
}

TEST_F(ReportTest, LossOverTheBaselineIsDrawnWhereThereIsOne) {
  const std::vector<SweepRecord> records = test::example_sweep();
  const ReportInput input = load(records);
  const Entry* drawn = nullptr;
  for (const Entry& entry : input.entries)
    if (entry.to_baseline) drawn = &entry;
  ASSERT_NE(drawn, nullptr);
  const std::string page = html(records), loss = millinat_difference(*drawn->to_baseline);
  const std::string label = fmt::format("bits per weight, loss over the baseline, millinats per token {}", loss);
  EXPECT_GE(count(page, label + "<") + count(page, label + "; on the front or off it within the errors<"), 1u);
}

TEST_F(ReportTest, PerplexityIsDrawnWhereThereIsNoBaseline) {
  std::vector<SweepRecord> records = test::example_sweep();
  records.erase(records.begin());  // the float model
  const std::string page = html(records);
  EXPECT_EQ(count(page, "<h3>Loss over"), 0u);
  EXPECT_EQ(count(page, "<h3>Perplexity over"), 2u);
}

// The float model and two cells of 4 bits, the second with shifting.
std::vector<SweepRecord> two_cells(double kl_apart) {
  std::vector<SweepRecord> records = test::example_sweep();
  records.resize(3);
  diverge(records[1], 0.010, 1);
  diverge(records[2], 0.010 * (1.0 + kl_apart), 2);
  return records;
}

TEST_F(ReportTest, AQuantizedBaselineIsRankedAndTheFloatModelIsNot) {
  for (const bool by_divergence : {true, false}) {
    std::vector<SweepRecord> records = two_cells(0.2);
    if (!by_divergence) {  // without and with scaling: far apart in loss
      records = test::example_sweep();
      records = {records[0], records[1], records[3]};
      records[2].id = two_cells(0.2)[2].id;  // in its file's place
    }
    const std::size_t better = by_divergence ? 1 : 2;
    const Report report = build_report(load(records, records[better].labels[1].second), {});
    std::size_t best = 0;
    for (const auto& row : std::get<ReportTable>(report.sections[0].items[0]).rows)
      for (const TableCell& cell : row) {
        best += cell.is_best;
        EXPECT_EQ(cell.is_best, cell.detail == "baseline") << cell.text;
      }
    EXPECT_EQ(best, 1u);
    const ReportTable& list = list_of(report);
    ASSERT_EQ(list.rows.size(), 3u);
    EXPECT_EQ(list.rows[0][0].text, "float");
    for (const TableCell& cell : list.rows[0]) EXPECT_FALSE(cell.is_best || cell.undecided) << cell.text;
    EXPECT_EQ(std::ranges::count_if(list.rows[1], &TableCell::is_best), 1);
    EXPECT_EQ(count(markdown_report(report), "****"), 0u);
  }
}

TEST_F(ReportTest, AModificationHasThePairedErrorOfWhatItChanges) {
  const auto figure_of = [&](const std::vector<SweepRecord>& records) {
    const Report report = build_report(load(records), {});
    for (const auto& item : section_of(report, "Figures").items)
      if (const auto* figure = std::get_if<Figure>(&item); figure && figure->title.starts_with("What each"))
        return *figure;
    throw std::logic_error("no figure");
  };
  const auto text_of = [](const std::optional<PairedDifference>& change, int digits) {
    return fmt::format("{} ± {:.{}f}", signed_number(change->mean * 1e3, digits), change->standard_error * 1e3, digits);
  };
  for (const double apart : {0.0, 0.2}) {
    const std::vector<SweepRecord> records = two_cells(apart);
    const Figure figure = figure_of(records);
    ASSERT_EQ(figure.data.rows.size(), 1u);
    const TableCell& mean = figure.data.rows[0][3];
    EXPECT_EQ(mean.text, text_of(paired_difference(records[2].measures->divergence->window_nats,
                                                   records[1].measures->divergence->window_nats),
                                 3));
    EXPECT_EQ(mean.undecided, apart == 0.0);
    EXPECT_NE(figure.svg.find("KL divergence"), std::string::npos);
  }
  std::vector<SweepRecord> records = two_cells(0.2);
  records[1].measures->divergence.reset();
  const Figure figure = figure_of(records);
  EXPECT_EQ(figure.data.rows[0][3].text,
            text_of(paired_difference(records[2].measures->window_nll, records[1].measures->window_nll), 2));
  EXPECT_NE(figure.svg.find("change of the loss"), std::string::npos);
}

TEST_F(ReportTest, TheErrorOfSeveralPairsIsThatOfTheirMeanOverWindows) {
  // Twice the same change over the same windows: the second pair says nothing that the first one did not.
  std::vector<SweepRecord> records = two_cells(0.2);
  for (const std::size_t i : {1u, 2u}) {
    SweepRecord twin = records[i];
    twin.id[0] = 'f';
    std::string& recipe = twin.configuration[1].second;
    recipe.replace(recipe.find("none"), 4, "fisher");
    records.push_back(twin);
  }
  const Report report = build_report(load(records), {});
  const auto& rows = std::get<Figure>(section_of(report, "Figures").items.back()).data.rows;
  const auto shifting = std::ranges::find(rows, "shifting: false → true", [](const auto& row) { return row[0].text; });
  ASSERT_NE(shifting, rows.end());
  EXPECT_EQ((*shifting)[2].text, "2");
  EXPECT_EQ((*shifting)[3].text, (*shifting)[4].text);
}

TEST_F(ReportTest, AnErrorOfADivergenceHasADigitOfItsOwn) {
  std::vector<SweepRecord> records = two_cells(0.2);
  records[1].measures->divergence->nats_per_token = 0.0000625;
  records[1].measures->divergence->stderr_nats = 0.00000031;
  EXPECT_NE(html(records).find("0.0625 ± 0.0003"), std::string::npos);
}

TEST_F(ReportTest, RecipesThatDifferInMoreThanTheirSettingsAreNoPair) {
  // Without and with shifting, and both with a budget, which is no setting: it adds the same everywhere.
  std::vector<SweepRecord> records = two_cells(0.2);
  for (const std::size_t i : {1u, 2u}) {
    SweepRecord other = records[i];
    other.id[0] = 'f';
    std::string& recipe = other.configuration[1].second;
    recipe.insert(recipe.size() - 1, R"(,"budget":{"bits_per_weight":3.0})");
    DivergenceMeasures& divergence = *other.measures->divergence;
    divergence.nats_per_token += 0.03;
    for (double& nats : divergence.window_nats) nats += 0.03;
    records.push_back(other);
  }
  const Report report = build_report(load(records), {});
  const ReportTable& table = modifications_of(report);
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0][0].text, "shifting: false → true");
  EXPECT_EQ(table.rows[0][2].text, "2");
  EXPECT_EQ(table.rows[0][4].text, table.rows[0][5].text) << "the lowest and the highest";
}

TEST_F(ReportTest, AChangeNamesWhatItBringsAlong) {
  // Only cells that are `sequential` have the other keys: these tell no cells apart, and one of them does the work.
  std::vector<SweepRecord> records = two_cells(0.2);
  const auto replace = [&](std::size_t i, std::string_view from, std::string_view to) {
    std::string& recipe = records[i].configuration[1].second;
    recipe.replace(recipe.find(from), from.size(), to);
  };
  replace(1, R"("shifting":false)", R"("sequential":false)");
  replace(2, R"("shifting":true)", R"("sequential":true,"drift_correction":1.0,"guided_inputs":"float")");
  const auto names = [&] {
    const Report report = build_report(load(records), {});
    std::vector<std::string> found;
    for (const auto& row : modifications_of(report).rows) found.push_back(row[0].text);
    return found;
  };
  EXPECT_EQ(names(), std::vector<std::string>{"sequential: false → true, drift_correction 1.0"});
  replace(2, R"(,"guided_inputs":"float")", R"(,"guided_inputs":"drifted")");
  EXPECT_EQ(names(), std::vector<std::string>{"sequential: false → true, drift_correction 1.0, guided_inputs drifted"});
  replace(2, R"("drift_correction":1.0,)", R"("drift_correction":0.0,)");
  EXPECT_EQ(names(), std::vector<std::string>{"sequential: false → true, guided_inputs drifted"});
}

TEST_F(ReportTest, APairIsOfOneSeedWhereBothHaveOne) {
  for (const bool both_have : {false, true}) {  // in this order: the second overwrites all records of the first
    std::vector<SweepRecord> records = {test::example_sweep()[0]};
    for (const int seed : {0, 1, 2})
      for (const std::size_t i : {1u, 2u}) {  // without and with shifting
        if (i == 1 && !both_have && seed > 0) continue;
        SweepRecord record = two_cells(0.2)[i];
        record.id[0] = static_cast<char>('a' + seed);
        std::string& recipe = record.configuration[1].second;
        if (i == 2 || both_have) recipe.insert(recipe.find("\"bits\""), fmt::format("\"seed\":{},", seed));
        DivergenceMeasures& divergence = *record.measures->divergence;  // seeds make more difference than shifting
        divergence.nats_per_token += 0.03 * seed;
        for (double& nats : divergence.window_nats) nats += 0.03 * seed;
        records.push_back(record);
      }
    const Report report = build_report(load(records), {});
    const ReportTable& table = modifications_of(report);
    ASSERT_EQ(table.rows.size(), 1u);
    EXPECT_EQ(table.rows[0][0].text, "shifting: false → true");
    EXPECT_EQ(table.rows[0][2].text, "3");
    // A cell without a seed, for which it has no meaning, is compared with those of all seeds.
    EXPECT_EQ(table.rows[0][4].text == table.rows[0][5].text, both_have) << "the lowest and the highest";
  }
}

TEST_F(ReportTest, DifferencesInsideTwoStandardErrorsAreUndecidedAndNothingIsBold) {
  for (const double apart : {0.0, 0.2}) {
    const auto report = build_report(load(two_cells(apart)), {});
    std::size_t best = 0, undecided = 0;
    for (const auto& row : std::get<ReportTable>(report.sections[0].items[0]).rows)
      for (const TableCell& cell : row) {
        best += cell.is_best;
        undecided += cell.undecided;
      }
    // 78 windows, noise of 20 % in each: a standard error of 3.2 % of the difference.
    EXPECT_EQ(best, apart == 0.0 ? 0u : 1u);
    EXPECT_EQ(undecided, apart == 0.0 ? 2u : 0u);
  }
}

TEST_F(ReportTest, NothingIsMarkedWhereDifferencesHaveNoError) {
  std::vector<SweepRecord> records = two_cells(5.0);
  for (SweepRecord& record : records) {  // of a text of one window
    record.measures->window_nll.resize(1);
    if (auto& divergence = record.measures->divergence) divergence->window_nats.resize(1);
  }
  const auto report = build_report(load(records), {});
  for (const auto& row : std::get<ReportTable>(report.sections[0].items[0]).rows)
    for (const TableCell& cell : row) EXPECT_FALSE(cell.is_best || cell.undecided) << cell.text;
  for (const auto& row : list_of(report).rows)
    for (const TableCell& cell : row) EXPECT_FALSE(cell.is_best || cell.undecided) << cell.text;
}

TEST_F(ReportTest, DifferencesWeighWindowsAsTheFiguresDo) {
  // The second is better in a long window and worse in short ones: over all tokens better, over windows worse.
  for (const std::string average : {"windows", "tokens"}) {
    std::vector<SweepRecord> records = two_cells(0.0);
    for (std::size_t i = 0; i < records.size(); ++i) {
      CellMeasures& measures = *records[i].measures;
      records[i].configuration[3].second = fmt::format(R"({{"protocol":"sliding","average":"{}"}})", average);
      measures.window_tokens = std::vector<std::uint64_t>(measures.window_nll.size(), 2);
      measures.window_tokens[0] = measures.window_tokens[1] = 1000;
      const double sign = i == 2 ? 1.0 : 0.0;
      std::vector<double> windows(measures.window_nll.size(), 1.0 + 0.002 * sign);
      windows[0] = windows[1] = 1.0 - 0.001 * sign;
      measures.window_nll = windows;
      if (measures.divergence) {
        measures.divergence->window_nats = windows;
        measures.divergence->nats_per_token = weighted_mean(windows, measures.window_tokens).mean;
      }
    }
    // Changes of −1, −1 and 76 times +2 millinats over 1000, 1000 and 76 times 2 tokens.
    const double over_tokens = (-2000.0 + 76 * 2 * 2.0) / (2000.0 + 76 * 2.0);
    const double over_windows = (-2.0 + 76 * 2.0) / 78.0;
    const ReportInput input = load(records);
    const Report report = build_report(input, {});
    EXPECT_TRUE(modifications_of(report).rows[0][3].text.starts_with(signed_number(over_tokens, 3) + " ± "))
        << modifications_of(report).rows[0][3].text;
    const Entry& second = *std::ranges::find(input.entries, records[2].id, [](const Entry& e) { return e.record.id; });
    EXPECT_EQ(signed_number(second.to_baseline->mean * 1e3, 6),
              signed_number(average == "tokens" ? over_tokens : over_windows, 6));
    const ReportTable& list = list_of(report);
    EXPECT_EQ(list.rows[1][0].text, records[2].labels[1].second) << "the lower divergence";
    EXPECT_TRUE(list.rows[2][5].text.starts_with(signed_number(-over_tokens, 3) + " ± ")) << list.rows[2][5].text;
  }
}

TEST_F(ReportTest, LossesAreAgainstTheFloatModelAndPaired) {
  const ReportInput input = load(test::example_sweep());
  for (const Entry& entry : input.entries) {
    if (entry.is_baseline) {
      EXPECT_EQ(entry.setting("recipe"), "float");
      continue;
    }
    ASSERT_TRUE(entry.to_baseline) << entry.setting("recipe");
    EXPECT_GT(entry.to_baseline->mean, 0.0);
    // Windows differ by 0.15 nats among themselves; the paired error must not see that.
    EXPECT_LT(entry.to_baseline->standard_error, 0.15 / std::sqrt(78.0) / 2.0);
    EXPECT_GE(entry.adjusted_p, entry.to_baseline->p_value);
  }
}

TEST_F(ReportTest, AnotherBaselineIsTakenByName) {
  const std::string name = "bits=4 weighting=none scaling=none shifting=false";
  const ReportInput input = load(test::example_sweep(), name);
  EXPECT_EQ(std::count_if(input.entries.begin(), input.entries.end(), [](const Entry& e) { return e.is_baseline; }), 1);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { load(test::example_sweep(), "nobody"); }, "'nobody'", "'float'"));
}

TEST_F(ReportTest, MixedCommitsAndEvaluationsAreFlagged) {
  std::vector<SweepRecord> records = test::example_sweep();
  records[3].environment[0].second = "another";
  std::string page = html(records);
  EXPECT_NE(page.find("2 different values of &#39;commit&#39;"), std::string::npos);
  EXPECT_EQ(page.find("must not be compared"), std::string::npos);
  records[5].configuration[3].second = R"({"tokens":"ab12","protocol":"sliding","context":512})";
  page = html(records, {.rows = {"recipe"}, .columns = {"evaluation"}});
  EXPECT_NE(page.find("must not be compared"), std::string::npos);
}

TEST_F(ReportTest, CalibrationsMixBySampleNotByWhatTheyCollect) {
  std::vector<SweepRecord> records = test::example_sweep();
  records[3].configuration[2].second = R"({"text":"c0ffee","samples":64,"collected":"activations,hessian"})";
  EXPECT_EQ(html(records).find("were calibrated on different"), std::string::npos);
  // A guide is of what it weighs, and mixes with none but another guide.
  const auto guided = [](const char* guide) {
    return fmt::format(R"({{"text":"c0ffee","samples":64,{}"collected":"activations,guided-hessian"}})", guide);
  };
  records[3].configuration[2].second = guided(R"("guide":"whitened",)");
  EXPECT_EQ(html(records).find("were calibrated on different"), std::string::npos);
  records[4].configuration[2].second = guided("");
  EXPECT_NE(html(records).find("were calibrated on different"), std::string::npos);
  records[3].configuration[2].second = guided("");
  EXPECT_EQ(html(records).find("were calibrated on different"), std::string::npos);
  records[3].configuration[2].second = R"({"text":"c0ffee","samples":32})";
  EXPECT_NE(html(records).find("were calibrated on different"), std::string::npos);
}

TEST_F(ReportTest, SamplesAndDrawsOfTheCalibrationAreSettings) {
  std::vector<SweepRecord> records;
  for (const char* windows : {"8", "64"})
    for (const char* seed : {"0", "1"})
      for (SweepRecord record : test::example_sweep()) {
        if (fact(record.configuration, "recipe") != "null") {
          record.labels[1].second += fmt::format(", {} windows, seed {}", windows, seed);
          record.configuration[2].second = fmt::format(
              R"({{"text_hash":"c0ffee","windows_hash":"{0}{1}","windows":"{0}","seeds":"{1}"}})", windows, seed);
        } else if (!records.empty()) {
          continue;
        }
        record.id = fmt::format("{:032x}", records.size() + 1);
        records.push_back(std::move(record));
      }
  const ReportInput input = load(records);
  const Section whole = build_report(input, {}).sections[0];
  ASSERT_EQ(whole.items.size(), 1u);
  const auto& table = std::get<ReportTable>(whole.items[0]);
  EXPECT_EQ(table.rows.size(), 8u * 4u);
  EXPECT_NE(table.columns[0].find("calibration.samples, calibration.seed"), std::string::npos) << table.columns[0];
  EXPECT_EQ(table.rows[0][0].text, "calibration.samples 8 + calibration.seed 0");
  EXPECT_TRUE(table.warnings.empty()) << table.warnings[0];

  const Section apart = build_report(input, {.rows = {"seed"}, .columns = {"samples"}}).sections[0];
  ASSERT_EQ(apart.items.size(), 24u);  // a table for each recipe
  EXPECT_EQ(std::get<ReportTable>(apart.items[0]).columns, (std::vector<std::string>{"calibration.seed", "8", "64"}));
  // All draws stand in one list, which does not say what they are.
  EXPECT_FALSE(list_of(build_report(input, {})).warnings.empty());
}

TEST_F(ReportTest, DamagedRecordsAreNamedAndPassedOver) {
  const std::string name(32, 'd');
  test::write_file(directory_ / (name + ".json"), "{\"format\": 1");
  const ReportInput input = load(test::example_sweep());
  EXPECT_EQ(input.entries.size(), 25u);
  ASSERT_EQ(input.problems.size(), 1u);
  EXPECT_NE(input.problems[0].find(name), std::string::npos);
  EXPECT_NE(html_report(build_report(input, {})).find(name), std::string::npos);
}

TEST_F(ReportTest, NothingToReportIsRefused) {
  EXPECT_TRUE(throws_with<FormatError>([&] { load_report_input({directory_.path()}); }, "nothing to report"));
  EXPECT_TRUE(throws_with<FormatError>([&] { load_report_input({directory_ / "absent"}); }, "absent"));
}

TEST_F(ReportTest, FailedCellsAreListedWithTheirErrors) {
  std::vector<SweepRecord> records = test::example_sweep();
  records[4].measures.reset();
  records[4].error = CellError{"NumericalError", "h.0 is not finite"};
  const ReportInput input = load(records);
  EXPECT_EQ(input.failed.size(), 1u);
  EXPECT_NE(html_report(build_report(input, {})).find("NumericalError: h.0 is not finite"), std::string::npos);
  EXPECT_NE(csv_report(input).find("\"failed\""), std::string::npos);
}

TEST_F(ReportTest, NumbersThatAreNotFiniteDoNotBreakIt) {
  std::vector<SweepRecord> records = test::example_sweep();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  records[2].measures->perplexity = nan;
  records[2].measures->window_nll[0] = nan;
  records[3].measures->bits_per_weight = INFINITY;
  records[4].measures->perplexity = 1e300;
  records[5].measures->tensors[0].output_error = nan;
  records[5].measures->tensors[1].palette = {nan, nan};
  records[6].measures->tensors[0].histogram->counts.assign(64, 0);
  const std::string page = html(records);
  EXPECT_EQ(count(page, "=\"nan"), 0u);
  EXPECT_EQ(count(page, "nan,"), 0u);
  EXPECT_EQ(count(page, "inf,"), 0u);
  EXPECT_EQ(count(page, "=\"inf"), 0u);
}

TEST_F(ReportTest, HostileNamesStayTextInHtml) {
  const std::string page =
      html(test::hostile_sweep("</script><script>alert(1)</script><img src=x onerror=alert(2)>\""));
  EXPECT_EQ(count(page, "<script"), 1u);
  EXPECT_EQ(count(page, "</script>"), 1u);
  EXPECT_EQ(count(page, "<img"), 0u);
  EXPECT_EQ(count(page, "&lt;script&gt;alert(1)") > 50, true);
}

TEST_F(ReportTest, HostileNamesStayTextInTexMarkdownAndCsv) {
  const ReportInput input = load(test::hostile_sweep("\\input{/etc/passwd}%|</td>\n=1"));
  const Report report = build_report(input, {});
  const std::string tex = tex_report(report), markdown = markdown_report(report), csv = csv_report(input);
  EXPECT_EQ(count(tex, "\\input"), 0u);
  EXPECT_GT(count(tex, "\\textbackslash{}input\\{/etc/passwd\\}\\%"), 20u);
  EXPECT_EQ(count(markdown, "</td>"), 0u);
  EXPECT_EQ(count(csv, "\n"), 26u) << "a line per cell";
}

TEST_F(ReportTest, TheCsvHasTheDivergenceWithItsStandardError) {
  const std::vector<SweepRecord> records = two_cells(0.2);
  const DivergenceMeasures& divergence = *records[2].measures->divergence;
  const std::string csv = csv_report(load(records));
  EXPECT_NE(csv.find(",kl_nats_per_token,kl_stderr_nats,"), std::string::npos);
  EXPECT_NE(csv.find(fmt::format(",{},{},", divergence.nats_per_token, *divergence.stderr_nats)), std::string::npos);
}

TEST_F(ReportTest, EveryLineOfCsvHasTheFieldsOfTheHead) {
  const std::string csv = csv_report(load(test::example_sweep()));
  std::size_t expected = 0, begin = 0;
  while (begin < csv.size()) {
    const std::size_t end = csv.find("\r\n", begin);
    std::size_t commas = 0;
    bool quoted = false;
    for (const char c : csv.substr(begin, end - begin)) {
      if (c == '"') quoted = !quoted;
      commas += c == ',' && !quoted;
    }
    if (expected == 0) expected = commas;
    EXPECT_EQ(commas, expected);
    begin = end + 2;
  }
  EXPECT_GT(expected, 20u);
}

TEST_F(ReportTest, SpeedsAreDrawnOverContextAndStayOutOfTheTablesOfPerplexity) {
  std::vector<SweepRecord> records = test::example_sweep();
  SweepRecord fast = records[1];
  fast.id = std::string(32, 'f');
  fast.labels[2].second = "decode";
  fast.measures->perplexity = std::numeric_limits<double>::quiet_NaN();
  for (const std::uint64_t context : {64u, 256u})
    fast.speeds.push_back({.context = context,
                           .prompt = context / 2,
                           .generate = 8,
                           .cache_bytes = 100 * context,
                           .first_token_seconds = {0.5, 0.4, 0.6},
                           .tokens_per_second = {4321.0, 4000.0, 4500.0}});
  const std::string before = html(records);
  records.push_back(fast);
  const ReportInput input = load(records);
  EXPECT_EQ(input.speeds.size(), 1u);
  EXPECT_EQ(input.entries.size(), 25u);
  const std::string page = html_report(build_report(input, {}));
  EXPECT_EQ(count(before, "Speed over context"), 0u);
  EXPECT_EQ(count(page, "<h3>Speed over context"), 1u);
  EXPECT_EQ(count(page, "context 256, 4321 tokens/s"), count(page, "context 64, 4321 tokens/s"));
  EXPECT_GE(count(page, "context 256, 4321 tokens/s"), 1u);
  EXPECT_EQ(count(page, ">nan"), 0u);
}

// Options about tables that there cannot be.
TEST_F(ReportTest, WhatIsAboutQualityIsRefusedWhereNoneWasMeasured) {
  SweepRecord cell = test::example_sweep()[1];
  cell.measures->perplexity = std::numeric_limits<double>::quiet_NaN();
  cell.speeds.push_back(kSomeSpeed);
  const ReportInput input = load({cell});
  ASSERT_TRUE(input.entries.empty());
  EXPECT_NO_THROW(build_report(input, {}));
  for (const ReportOptions& options :
       {ReportOptions{.rows = {"bits"}}, ReportOptions{.columns = {"bits"}}, ReportOptions{.over = "calibration.seed"}})
    EXPECT_TRUE(throws_with<InvalidArgument>([&] { build_report(input, options); }, "there are none"));
}

TEST_F(ReportTest, SpeedsOfOneMachineAreNotTakenForThoseOfSeveral) {
  SweepRecord cell = test::example_sweep()[1];  // by "a processor" with 2 threads
  cell.speeds.push_back(kSomeSpeed);
  const auto is_warned_of = [&](const std::string& machine) {
    test::write_file(directory_ / "speed.json",
                     R"({"model": "m", "method": "float16", "compute": "exact", "machine": )" + machine +
                         R"(, "speeds": [{"context": 64, "prompt": 32,
        "generate": 8, "cache_bytes": 6400, "cache": "state", "cache_type": "f32",
        "ttft_seconds": {"median": 0.5, "min": 0.4, "max": 0.6},
        "extend_tokens_per_second": {"median": 4000, "min": 3900, "max": 4100}}]})");
    const ReportInput input = load({cell});
    EXPECT_EQ(input.speeds.size(), 2u);
    return count(html_report(build_report(input, {})), "different processors") > 0;
  };
  EXPECT_FALSE(is_warned_of(R"({"processor": "a processor", "threads": 2})"));
  EXPECT_FALSE(is_warned_of(R"({"threads": 2})")) << "as printed by earlier versions";
  EXPECT_TRUE(is_warned_of(R"({"processor": "another", "threads": 2})"));
  EXPECT_TRUE(is_warned_of(R"({"processor": "a processor", "threads": 4})"));
}

TEST_F(ReportTest, StorageStudiesBecomeASection) {
  test::write_file(directory_ / "storage.json", R"({"model": "m", "sample_bytes": 1, "storage_study": [
      {"stream": "codes, 4 bits", "entropy_bits_per_value": 3.69, "results": [
        {"codec": "zlib 6", "transform": "packed", "ratio": 1.05, "bits_per_value": 3.8},
        {"codec": "zlib 6", "transform": "zigzag, packed", "ratio": 1.07, "bits_per_value": 3.7},
        {"codec": "rANS", "transform": "plain", "ratio": 1.08, "bits_per_value": 3.69}]}]})");
  const ReportInput input = load(test::example_sweep());
  ASSERT_EQ(input.storage.size(), 1u);
  ASSERT_EQ(input.storage[0].rows.size(), 2u);
  EXPECT_EQ(input.storage[0].rows[0].transform, "zigzag, packed");
  EXPECT_NE(html_report(build_report(input, {})).find("m: codes, 4 bits"), std::string::npos);
}

TEST_F(ReportTest, PairsAreOfCellsThatWereCalibratedAlike) {
  // Without and with shifting, on two texts, and a cell with other settings that needs no statistics.
  std::vector<SweepRecord> records = {test::example_sweep()[0]};
  const auto add = [&](std::size_t i, const char* calibration, double more) {
    SweepRecord record = two_cells(0.2)[i];
    record.id = fmt::format("{:032x}", records.size() + 1);
    record.configuration[2].second = calibration;
    record.measures->divergence->nats_per_token += more;
    for (double& nats : record.measures->divergence->window_nats) nats += more;
    records.push_back(record);
  };
  add(1, R"({"text_hash":"1","window_tokens":"64"})", 0.0);
  add(2, R"({"text_hash":"1","window_tokens":"64"})", 0.0);
  add(1, R"({"text_hash":"1","window_tokens":"16"})", 0.03);
  add(2, R"({"text_hash":"1","window_tokens":"16"})", 0.03);
  const Report both = build_report(load(records), {});
  const ReportTable& table = modifications_of(both);
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0][2].text, "2");
  EXPECT_EQ(table.rows[0][4].text, table.rows[0][5].text) << "the lowest and the highest";

  records.resize(3);
  records[1].configuration[2].second = "null";
  EXPECT_EQ(modifications_of(build_report(load(records), {})).rows.size(), 1u) << "needs none, and pairs with all";
}

TEST_F(ReportTest, WindowsOfTokensAreTheirText) {
  for (const char* tokens : {"consecutive windows", "consecutive windows behind the BOS"}) {
    std::vector<SweepRecord> records = {test::example_sweep()[0]};
    for (const char* windows : {"8", "64"})
      for (const char* sampling : {tokens, "documents"}) {
        SweepRecord record = test::example_sweep()[1];
        record.id = fmt::format("{:032x}", records.size() + 1);
        record.labels[1].second += fmt::format(", {} of {}", windows, sampling);
        record.configuration[2].second = fmt::format(
            R"({{"text_hash":"{0}","windows_hash":"{0}","sampling":"{1}","windows":"{0}"}})", windows, sampling);
        records.push_back(record);
      }
    const auto warnings_of = [&](std::size_t first) {
      const ReportInput input = load(records);
      Entries entries;
      for (const Entry& entry : input.entries)
        if (entry.record.id == records[first].id || entry.record.id == records[first + 2].id) entries.push_back(&entry);
      return mixture_warnings(entries, {"calibration.samples"}).size();
    };
    EXPECT_EQ(warnings_of(1), 0u) << tokens;
    EXPECT_EQ(warnings_of(2), 1u) << "other texts";
    records[1].sources.emplace_back("calibration", R"({"tokens":"a.u16"})");
    records[3].sources.emplace_back("calibration", R"({"tokens":"b.u16"})");
    EXPECT_EQ(warnings_of(1), 1u) << "other files";
    constexpr std::size_t kDepth = 200'000;  // copied or printed, that is more than a stack holds
    set_fact(records[1].sources, "calibration",
             R"({"tokens":)" + std::string(kDepth, '[') + std::string(kDepth, ']') + "}");
    EXPECT_EQ(warnings_of(1), 1u) << "one file, and one that cannot be";
  }
}

TEST_F(ReportTest, TheKindOfSensitivitiesIsOfCellsThatHaveSome) {
  std::vector<SweepRecord> records = {test::example_sweep()[0], two_cells(0.2)[1], two_cells(0.2)[2]};
  records[1].configuration[2].second = R"({"text":"c0ffee","flavour":"sequence","collected":"activations"})";
  records[2].configuration[2].second = R"({"text":"c0ffee","flavour":"position","collected":"activations,fisher"})";
  EXPECT_EQ(html(records).find("were calibrated on different"), std::string::npos);
  EXPECT_EQ(modifications_of(build_report(load(records), {})).rows.size(), 1u);
  records[1].configuration[2].second = R"({"text":"c0ffee","flavour":"sequence","collected":"fisher"})";
  EXPECT_NE(html(records).find("were calibrated on different"), std::string::npos);
}

}  // namespace
}  // namespace nibble::eval
