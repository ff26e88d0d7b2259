#include "eval/sweep/record.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "core/error.h"
#include "core/text/json.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

constexpr const char* kId = "0123456789abcdef0123456789abcdef";

SweepRecord example() {
  SweepRecord record;
  record.id = kId;
  record.labels = {{"model", "m"}, {"recipe", "bits=3"}, {"evaluation", "blocks"}};
  record.configuration = {{"model", R"({"fingerprint":"f"})"},
                          {"recipe", R"({"defaults":{"format":"palette","bits":3,"shifting":true}})"},
                          {"calibration", "null"},
                          {"evaluation", R"({"protocol":"blocks","context":64})"}};
  record.measures = CellMeasures{.perplexity = 12.5,
                                 .perplexity_stderr = 0.1,
                                 .nll_nats_per_token = std::log(12.5),
                                 .bits_per_byte = std::nullopt,
                                 .tokens_scored = 126,
                                 .window_nll = {2.5, 2.5514572886165},
                                 .divergence = DivergenceMeasures{0.25, 0.01, 0.2, 1.5, 3.0, 0.9, {0.125, 0.375}},
                                 .bits_per_weight = 3.01,
                                 .model_bits_per_weight = 5.0,
                                 .model_bytes = 1000,
                                 .tensors = {{{.name = "h.0.mlp.c_fc",
                                               .format = "palette",
                                               .weights = 64,
                                               .stored_bits = 320,
                                               .bits_per_weight = 5.0,
                                               .relative_weight_error = 0.125,
                                               .optimality_gap = 0.0,
                                               .output_error = std::nullopt,
                                               .fisher_error = 1e-9},
                                              {-1.0, 1.0},
                                              Histogram{-2.0, 2.0, {1, 62, 1}}}}};
  record.environment = {{"commit", "abc"}, {"threads", "2"}};
  record.sources = {{"model", "models/m"}};
  record.command = "nibble sweep --repeat x.json";
  record.timings = {{"seconds", 1.5}};
  return record;
}

SweepRecord speed_example() {
  SweepRecord record = example();
  record.measures->perplexity = record.measures->nll_nats_per_token = std::numeric_limits<double>::quiet_NaN();
  record.measures->tokens_scored = 0;
  record.measures->window_nll.clear();
  record.measures->divergence.reset();
  record.speeds = {{.context = 64,
                    .prompt = 31,
                    .generate = 32,
                    .cache_bytes = 4096,
                    .first_token_seconds = {0.25, 0.125, 0.5},
                    .tokens_per_second = {100.0, 50.0, 200.0}}};
  return record;
}

std::string with(std::string_view from, std::string_view to) {
  std::string text = record_text(example());
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Record, NumbersThatAreNotFiniteAreNoneAndBack) {
  EXPECT_EQ(if_finite(0.25), 0.25);
  EXPECT_EQ(or_nan(if_finite(0.25)), 0.25);
  for (const double none : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(if_finite(none), std::nullopt);
    EXPECT_TRUE(std::isnan(or_nan(if_finite(none))));
  }
}

TEST(Record, ReadsWhatItWrites) {
  const std::string text = record_text(example());
  EXPECT_EQ(record_text(parse_record(text, "r")), text);
}

TEST(Record, LeavesOutWhatIsDrawnWhereItWouldBeTooLargeToReadAgain) {
  const SweepRecord record = example();
  const std::string whole = record_text(record);
  EXPECT_EQ(record_text_within(record, whole.size()), whole);
  const std::string less = record_text_within(record, whole.size() - 1);
  const SweepRecord read = parse_record(less, "r");
  EXPECT_TRUE(read.measures->tensors.at(0).palette.empty());
  EXPECT_FALSE(read.measures->tensors.at(0).histogram);
  EXPECT_EQ(read.measures->tensors.at(0).relative_weight_error, 0.125);
  EXPECT_EQ(read.measures->window_nll, record.measures->window_nll);
  EXPECT_TRUE(test::throws_with<FormatError>([&] { (void)record_text_within(record, less.size() - 1); },
                                             fmt::format("takes {} bytes", less.size()), "m · bits=3 · blocks"));
}

TEST(Record, SaysHowManyTokensEachWindowScoredWhereTheyDiffer) {
  SweepRecord record = example(), older = example();
  EXPECT_EQ(record_text(record).find("window_tokens"), std::string::npos);
  record.measures->window_tokens = {124, 2};
  const std::string text = record_text(record);
  EXPECT_EQ(nlohmann::json::parse(text)["measures"]["window_tokens"], nlohmann::json::parse("[124, 2]"));
  EXPECT_EQ(record_text(parse_record(text, "r")), text);

  const auto sum = [](std::span<const std::uint64_t> weights) { return std::reduce(weights.begin(), weights.end()); };
  for (const SweepRecord* other : {&record, &older}) {  // an older record does not say
    EXPECT_EQ(sum(divergence_weights(record, *other)), 126u);
    EXPECT_EQ(sum(divergence_weights(*other, record)), 126u);
    EXPECT_TRUE(loss_weights(record, *other).empty()) << "the mean of windows' means";
  }
  EXPECT_TRUE(divergence_weights(older, older).empty());
  for (SweepRecord* by_tokens : {&record, &older})
    by_tokens->configuration[3].second = R"({"protocol":"sliding","average":"tokens"})";
  EXPECT_EQ(sum(loss_weights(older, record)), 126u);
}

TEST(Record, SaysHowTuningWentWhereThereWasSome) {
  SweepRecord record = example();
  EXPECT_FALSE(parse_record(record_text(record), "r").measures->tuning);
  EXPECT_EQ(record_text(record).find("tuning"), std::string::npos);
  record.measures->tuning = TuningRecord{{0.5, 0.25, 0.375}, {0.4, 0.3}, 1};
  const std::string text = record_text(record);
  EXPECT_EQ(
      nlohmann::json::parse(text)["measures"]["tuning"],
      nlohmann::json::parse(R"({"held_out_loss": [0.5, 0.25, 0.375], "trained_loss": [0.4, 0.3], "best_epoch": 1})"));
  EXPECT_EQ(record_text(parse_record(text, "r")), text);
}

TEST(Record, PassesOnWhatQuantizingWarnedOf) {
  SweepRecord record = example();
  EXPECT_EQ(record_text(record).find("warnings"), std::string::npos);
  record.warnings = {"an expert", "two \"rules\""};
  const std::string text = record_text(record);
  EXPECT_EQ(parse_record(text, "r").warnings, record.warnings);
  EXPECT_EQ(record_text(parse_record(text, "r")), text);
  record.warnings = {"clears\x1b[2J the screen"};
  EXPECT_EQ(parse_record(record_text(record), "r").warnings[0], "clears?[2J the screen");
  record.warnings.assign(17, "w");
  EXPECT_TRUE(test::throws_with<FormatError>([&] { parse_record(record_text(record), "r"); }, "at most 16", "17"));
  std::string wrong = text;
  wrong.replace(wrong.find("\"an expert\""), 11, "17");
  EXPECT_TRUE(test::throws_with<FormatError>([&] { parse_record(wrong, "r"); }, "'warnings'", "texts"));
}

TEST(Record, AFailedCellHasAnErrorAndNoMeasures) {
  SweepRecord record = example();
  record.measures.reset();
  record.error = CellError{"NumericalError", "NaN in \"h.0\"\n<b>"};
  const SweepRecord read = parse_record(record_text(record), "r");
  ASSERT_TRUE(read.error);
  EXPECT_EQ(read.error->message, record.error->message);
  EXPECT_FALSE(read.measures);
  EXPECT_EQ(record_text(read), record_text(record));
}

TEST(Record, IsRepeatedByACommandThatAShellTakes) {
  EXPECT_EQ(repeat_command("build/guide/0d2b.json"), "nibble sweep --repeat build/guide/0d2b.json");
  EXPECT_EQ(repeat_command("my results/it's $1/0d2b.json"),
            R"(nibble sweep --repeat 'my results/it'\''s $1/0d2b.json')");
}

TEST(Record, NothingButTimingsAndItsPlaceIsLeftOutOfTheComparison) {
  SweepRecord a = example(), b = example();
  b.command = "nibble sweep --repeat elsewhere/x.json";
  b.timings = {{"seconds", 7.0}, {"peak_bytes", 1.0}};
  EXPECT_EQ(record_text_without_timings(a), record_text_without_timings(b));
  b.environment[0].second = "abd";
  EXPECT_NE(record_text_without_timings(a), record_text_without_timings(b));
}

TEST(Record, FiguresThatAreNotFiniteBecomeNull) {
  SweepRecord record = example();
  record.measures->perplexity = std::numeric_limits<double>::infinity();
  const SweepRecord read = parse_record(record_text(record), "r");
  EXPECT_TRUE(std::isnan(read.measures->perplexity));
}

TEST(Record, SettingsAreLabelsRecipeEvaluationAndDraw) {
  SweepRecord drawn = example();
  set_fact(drawn.configuration, "calibration", R"({"windows":"64","seeds":"3","window_tokens":"512"})");
  EXPECT_EQ(fact(settings_of(drawn), "calibration.samples"), "64");
  EXPECT_EQ(fact(settings_of(drawn), "calibration.seed"), "3");
  const Facts settings = settings_of(example());
  EXPECT_EQ(fact(settings, "calibration.seed"), "");
  EXPECT_EQ(fact(settings, "recipe"), "bits=3");
  EXPECT_EQ(fact(settings, "bits"), "3");
  EXPECT_EQ(fact(settings, "shifting"), "true");
  EXPECT_EQ(fact(settings, "context"), "64");
  EXPECT_EQ(fact(settings, "granularity"), "");
}

TEST(Record, DamageIsNamed) {
  const auto refused = [](const std::string& text, const char* message) {
    return test::throws_with<FormatError>([&] { parse_record(text, "'r.json'"); }, "'r.json'", message);
  };
  EXPECT_TRUE(refused("{}", "not a sweep record"));
  EXPECT_TRUE(refused("[1]", "expected a JSON object"));
  EXPECT_TRUE(refused(with("\"version\": 1", "\"version\": 2"), "version 1"));
  EXPECT_TRUE(refused(with(kId, "../../etc/passwd"), "hex digits"));
  EXPECT_TRUE(refused(with("12.5", "\"x\""), "'measures': 'perplexity'"));
  EXPECT_TRUE(refused(with("\"divergence\"", "\"window_tokens\": [124], \"divergence\""),
                      "'window_tokens': expected a number for each of 2 windows, got 1"));
  EXPECT_TRUE(refused(with("[1,62,1]", "[1,-62,1]"), "'measures': 'tensors'[0]: 'histogram': 'counts'"));
  EXPECT_TRUE(refused(with("\"ok\"", "\"done\""), "\"done\""));
  EXPECT_TRUE(refused(with("\"version\"", "\"id\""), "id"));  // a key twice
  EXPECT_TRUE(refused(record_text(example()).substr(0, 200), "'r.json'"));
}

TEST(Record, ADirectoryIsReadInOrderAndOtherFilesArePassedOver) {
  const test::TempDir directory;
  SweepRecord second = example();
  second.id = std::string(32, 'f');
  test::write_file(directory / (second.id + ".json"), record_text(second));
  test::write_file(directory / (example().id + ".json"), record_text(example()));
  test::write_file(directory / "notes.json", "{");
  test::write_file(directory / (example().id + ".json.partial"), "{");
  const auto records = read_records(directory.path());
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].id, example().id);
  EXPECT_EQ(records[1].id, second.id);
}

TEST(Record, ReadsTheSpeedsThatItWrote) {
  const std::string text = record_text(speed_example());
  const SweepRecord read = parse_record(text, "record");
  EXPECT_EQ(record_text(read), text);
  ASSERT_EQ(read.speeds.size(), 1u);
  EXPECT_EQ(read.speeds[0].context, 64u);
  EXPECT_EQ(read.speeds[0].tokens_per_second.max, 200.0);
  EXPECT_TRUE(std::isnan(read.measures->perplexity));
}

TEST(Record, SpeedsDifferRunByRunAsTimingsDo) {
  SweepRecord other = speed_example();
  other.speeds[0].tokens_per_second.median = 101.0;
  EXPECT_NE(record_text(other), record_text(speed_example()));
  EXPECT_EQ(record_text_without_timings(other), record_text_without_timings(speed_example()));
}

}  // namespace
}  // namespace nibble::eval
