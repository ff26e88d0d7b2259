#include "cli/terminal/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "cli/terminal/human.h"
#include "cli/terminal/table.h"

namespace nibble::cli {
namespace {

constexpr double kSecondsBetweenBars = 0.1;
constexpr double kSecondsBetweenLines = 5.0;
constexpr double kSecondsBeforeGuess = 0.5;  // earlier, the rate is mostly start-up

const std::string kWipe = "\r\x1b[K";  // to the start, wipe to the end of the line

std::atomic<bool> bar_is_visible = false;
static_assert(std::atomic<bool>::is_always_lock_free, "read in a signal handler");

std::size_t terminal_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

// `done_since`: in the seconds of `elapsed`. What was there before them, as where work goes on that was killed, says
// nothing about the rate.
std::string figures(const ProgressUpdate& update, double done_since, double elapsed) {
  std::string text = fmt::format("{}/{} {}", human_count(update.done), human_count(update.total), update.unit);
  if (elapsed < kSecondsBeforeGuess || done_since <= 0.0) return text;
  const double rate = done_since / elapsed;
  return text + fmt::format("  {} {}/s  {} left", human_count(rate), update.unit,
                            human_clock((update.total - update.done) / rate));
}

}  // namespace

bool progress_bar_is_visible() { return bar_is_visible.load(std::memory_order_relaxed); }

ProgressBar ProgressBar::for_process(bool quiet) {
  const Style style = quiet ? Style::kQuiet : isatty(STDERR_FILENO) != 0 ? Style::kBar : Style::kLines;
  return ProgressBar(style, {.seconds =
                                 [] {
                                   const auto now = std::chrono::steady_clock::now().time_since_epoch();
                                   return std::chrono::duration<double>(now).count();
                                 },
                             .write =
                                 [](std::string_view text) {
                                   std::fwrite(text.data(), 1, text.size(), stderr);
                                   std::fflush(stderr);
                                 },
                             .columns = terminal_columns});
}

ProgressSink ProgressBar::sink() {
  if (style_ == Style::kQuiet) return {};
  return [this](const ProgressUpdate& progress) { update(progress); };
}

void ProgressBar::update(const ProgressUpdate& update) {
  const double now = surroundings_.seconds();
  // What falls back has begun anew, as a second calibration of a model does under the same name.
  if (stage_ != update.stage || update.done < last_done_) {
    stage_ = update.stage;
    stage_start_ = now;
    done_before_ = update.done - update.found;
    next_drawing_ = style_ == Style::kLines ? now + kSecondsBetweenLines : now;
  }
  last_done_ = update.done;
  const bool is_news = style_ == Style::kBar && note_ != update.note;
  note_ = update.note;
  if (now < next_drawing_ && !is_news) return;
  next_drawing_ = now + (style_ == Style::kLines ? kSecondsBetweenLines : kSecondsBetweenBars);

  const double share = update.total > 0.0 ? std::clamp(update.done / update.total, 0.0, 1.0) : 0.0;
  // Rounded down: 100 % is said of finished work only.
  const std::string percent = fmt::format("{:3.0f} %", std::floor(share * 100.0));
  const std::string tail = figures(update, update.done - update.found - done_before_, now - stage_start_);
  const std::string name = note_.empty() ? stage_ : fmt::format("{}, {}", stage_, note_);
  if (style_ == Style::kLines) {
    surroundings_.write(fmt::format("{}: {}  {}\n", name, percent, tail));
    return;
  }

  constexpr std::size_t kWidestBar = 40, kNarrowestBar = 5;
  const std::size_t columns = surroundings_.columns();
  // Room for the usual figures is kept from the start, so that the bar does not shrink when the rate appears.
  constexpr std::size_t kUsualFigures = std::string_view("30.7k/39.9k tokens  1.09k tokens/s  00:08 left").size();
  const std::size_t figures_width = std::max(tail.size(), kUsualFigures);
  const std::size_t text_width = character_count(name) + percent.size() + figures_width + 8;  // brackets and blanks
  std::string line;
  if (text_width + kNarrowestBar <= columns) {
    const std::size_t width = std::min(kWidestBar, columns - text_width);
    const auto filled = static_cast<std::size_t>(std::floor(share * static_cast<double>(width)));
    line = fmt::format("{}  {} [{:<{}}]  {}", name, percent, std::string(filled, '#'), width, tail);
  } else {
    line = fmt::format("{} {}", name, percent).substr(0, columns > 0 ? columns - 1 : 0);
  }
  bar_ = kWipe + line;
  surroundings_.write(bar_);
  bar_is_visible.store(true, std::memory_order_relaxed);
}

void ProgressBar::print_line(std::string_view text) {
  if (style_ == Style::kQuiet) return;
  surroundings_.write(fmt::format("{}{}\n{}", bar_.empty() ? "" : kWipe, text, bar_));
}

void ProgressBar::finish() {
  stage_.clear();
  if (bar_.empty()) return;
  surroundings_.write(kWipe);
  bar_.clear();
  bar_is_visible.store(false, std::memory_order_relaxed);
}

}  // namespace nibble::cli
