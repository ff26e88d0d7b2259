#include "cli/terminal/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace nibble::cli {
namespace {

using testing::HasSubstr;

// A bar over a clock and a screen of the test's own.
struct Stage {
  double now = 100.0;
  std::size_t columns = 100;
  std::string written;
  ProgressBar bar;

  explicit Stage(ProgressBar::Style style)
      : bar(style, {.seconds = [this] { return now; },
                    .write = [this](std::string_view text) { written += text; },
                    .columns = [this] { return columns; }}) {}

  // What one update at `seconds` after the start makes the bar write.
  std::string drawn(double seconds, double done, std::string_view name = "perplexity") {
    written.clear();
    now = 100.0 + seconds;
    bar.sink()({.stage = name, .done = done, .total = 1000, .unit = "tokens"});
    return written;
  }
};

TEST(ProgressBarStyleBar, ShowsShareRateAndTimeLeft) {
  Stage stage(ProgressBar::Style::kBar);
  EXPECT_THAT(stage.drawn(0, 0), HasSubstr("perplexity    0 %"));
  const std::string half = stage.drawn(10, 500);  // 50 tokens/s: 10 s for the rest
  EXPECT_THAT(half, HasSubstr("50 %"));
  EXPECT_THAT(half, HasSubstr("500/1.00k tokens"));
  EXPECT_THAT(half, HasSubstr("50 tokens/s"));
  EXPECT_THAT(half, HasSubstr("00:10 left"));
  EXPECT_THAT(stage.drawn(19.9, 999), HasSubstr("99 %")) << "100 % is said of finished work only";
}

// Shards of a run that was killed take no time to find.
TEST(ProgressBarStyleBar, WhatWasFoundTellsNothingOfTheRate) {
  Stage stage(ProgressBar::Style::kBar);
  stage.drawn(0, 0);
  stage.now = 101.0;
  stage.bar.sink()({.stage = "perplexity", .done = 500, .total = 1000, .unit = "tokens", .found = 500});
  stage.written.clear();
  stage.now = 110.0;
  stage.bar.sink()({.stage = "perplexity", .done = 600, .total = 1000, .unit = "tokens", .found = 500});
  EXPECT_THAT(stage.written, HasSubstr("60 %"));
  EXPECT_THAT(stage.written, HasSubstr("10 tokens/s"));
  EXPECT_THAT(stage.written, HasSubstr("00:40 left"));
}

TEST(ProgressBarStyleBar, HalfOfTheBarIsFilledHalfWay) {
  Stage stage(ProgressBar::Style::kBar);
  stage.columns = 200;
  stage.drawn(0, 0);
  EXPECT_THAT(stage.drawn(10, 500), HasSubstr("[" + std::string(20, '#') + std::string(20, ' ') + "]"));
}

TEST(ProgressBarStyleBar, RedrawsInPlaceAndAtMostTenTimesASecond) {
  Stage stage(ProgressBar::Style::kBar);
  EXPECT_THAT(stage.drawn(0, 0), testing::StartsWith("\r\x1b[K"));
  EXPECT_EQ(stage.drawn(0.05, 10), "");
  EXPECT_NE(stage.drawn(0.15, 20), "");
}

TEST(ProgressBarStyleBar, NeverExceedsTheTerminal) {
  Stage stage(ProgressBar::Style::kBar);
  for (std::size_t columns = 1; columns < 120; ++columns) {
    stage.columns = columns;
    const std::string line = stage.drawn(static_cast<double>(columns), 500);
    EXPECT_LT(line.size() - 4, columns) << line;  // 4: the control characters in front
  }
}

TEST(ProgressBarStyleBar, FinishWipesWhatIsVisibleOnce) {
  Stage stage(ProgressBar::Style::kBar);
  stage.drawn(0, 0);
  EXPECT_TRUE(progress_bar_is_visible());
  stage.written.clear();
  stage.bar.finish();
  stage.bar.finish();
  EXPECT_EQ(stage.written, "\r\x1b[K");
  EXPECT_FALSE(progress_bar_is_visible());
}

TEST(ProgressBarStyleBar, ANewStageStartsTheClockAgain) {
  Stage stage(ProgressBar::Style::kBar);
  stage.drawn(0, 0, "loading");
  stage.drawn(100, 500, "loading");
  stage.drawn(100.01, 0, "scoring");
  EXPECT_THAT(stage.drawn(102.01, 500, "scoring"), HasSubstr("250 tokens/s"));
}

// Work that was killed and goes on: what was there already took none of this run's time.
TEST(ProgressBarStyleBar, RatesCountWhatWasDoneSinceTheStageBegan) {
  Stage stage(ProgressBar::Style::kBar);
  stage.drawn(0, 400);
  EXPECT_THAT(stage.drawn(1, 400), testing::Not(HasSubstr("left")));
  EXPECT_THAT(stage.drawn(10, 500), testing::AllOf(HasSubstr("10 tokens/s"), HasSubstr("00:50 left")));
}

// As a model's second calibration, whose stage has the name of the first.
TEST(ProgressBarStyleBar, WorkThatFallsBackStartsTheClockAgain) {
  Stage stage(ProgressBar::Style::kBar);
  stage.drawn(0, 0);
  stage.drawn(100, 990);
  stage.drawn(101, 10);
  EXPECT_THAT(stage.drawn(103, 510), testing::AllOf(HasSubstr("250 tokens/s"), HasSubstr("00:02 left")));
}

TEST(ProgressBarStyleBar, NeitherANoteNorALineOfTextStartsTheClockAgain) {
  Stage stage(ProgressBar::Style::kBar);
  stage.drawn(0, 0);
  stage.bar.print_line("one is done");
  stage.now = 110.0;
  stage.bar.sink()({.stage = "perplexity", .done = 500, .total = 1000, .unit = "tokens", .note = "best 12.3"});
  EXPECT_THAT(stage.written, testing::AllOf(HasSubstr("perplexity, best 12.3  "), HasSubstr("50 tokens/s")));
}

TEST(ProgressBarStyleBar, ANewNoteIsDrawnAtOnce) {
  Stage stage(ProgressBar::Style::kBar);
  stage.drawn(0, 0);
  const auto noted = [&](std::string_view note) {
    stage.written.clear();
    stage.now = 100.05;
    stage.bar.sink()({.stage = "perplexity", .done = 1, .total = 1000, .unit = "tokens", .note = note});
    return stage.written;
  };
  EXPECT_THAT(noted("best 12.3"), HasSubstr("best 12.3"));
  EXPECT_EQ(noted("best 12.3"), "");
}

TEST(ProgressBarStyleBar, LinesOfTextGoAboveTheBar) {
  Stage stage(ProgressBar::Style::kBar);
  const std::string bar = stage.drawn(0, 0);
  stage.written.clear();
  stage.bar.print_line("h.0 is done");
  EXPECT_EQ(stage.written, "\r\x1b[Kh.0 is done\n" + bar);
  stage.bar.finish();
  stage.written.clear();
  stage.bar.print_line("h.1 is done");
  EXPECT_EQ(stage.written, "h.1 is done\n") << "no bar stands there any more";
}

TEST(ProgressBarStyleQuiet, PrintsNoLines) {
  Stage stage(ProgressBar::Style::kQuiet);
  stage.bar.print_line("h.0 is done");
  EXPECT_EQ(stage.written, "");
}

TEST(ProgressBarStyleLines, ShortWorkLeavesNoTrace) {
  Stage stage(ProgressBar::Style::kLines);
  EXPECT_EQ(stage.drawn(0, 0), "");
  EXPECT_EQ(stage.drawn(4.9, 1000), "");
  stage.bar.finish();
  EXPECT_EQ(stage.written, "");
}

TEST(ProgressBarStyleLines, OnePlainLineEveryFewSeconds) {
  Stage stage(ProgressBar::Style::kLines);
  stage.drawn(0, 0);
  EXPECT_EQ(stage.drawn(5, 250), "perplexity:  25 %  250/1.00k tokens  50 tokens/s  00:15 left\n");
  EXPECT_EQ(stage.drawn(9, 450), "");
  EXPECT_NE(stage.drawn(10, 500), "");
}

TEST(ProgressBarStyleQuiet, HandsOutAnEmptySink) {
  Stage stage(ProgressBar::Style::kQuiet);
  EXPECT_FALSE(stage.bar.sink());
}

TEST(ProgressBar, UnknownTotalsDoNotDivideByZero) {
  Stage stage(ProgressBar::Style::kBar);
  stage.bar.sink()({.stage = "reading", .done = 0, .total = 0, .unit = "bytes"});
  EXPECT_THAT(stage.written, HasSubstr("0 %"));
}

}  // namespace
}  // namespace nibble::cli
