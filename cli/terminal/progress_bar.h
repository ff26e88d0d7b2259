#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "core/progress.h"

namespace nibble::cli {

/// Draws the progress that libraries report, with rate and time left. On a terminal a bar that is redrawn in place and
/// wiped at the end; elsewhere (a log file) a plain line every few seconds, so that short work leaves no trace.
class ProgressBar {
 public:
  enum class Style { kQuiet, kLines, kBar };

  /// What the bar draws with: the process's own, or a test's.
  struct Surroundings {
    std::function<double()> seconds;              ///< a clock that never goes back
    std::function<void(std::string_view)> write;  ///< to standard error
    std::function<std::size_t()> columns;         ///< width of the terminal now
  };

  /// For this process: standard error, a bar if it is a terminal, nothing if `quiet`.
  static ProgressBar for_process(bool quiet);

  ProgressBar(Style style, Surroundings surroundings) : style_(style), surroundings_(std::move(surroundings)) {}
  ~ProgressBar() { finish(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// What to hand to a library; the bar must outlive it.
  ProgressSink sink();
  /// Writes a line of text: above the bar, where there is one. Nothing if quiet.
  void print_line(std::string_view text);
  /// Wipes the bar, so that other text can follow. The next update draws it again.
  void finish();

 private:
  void update(const ProgressUpdate& update);

  Style style_;
  Surroundings surroundings_;
  std::string stage_;  // of the last update; a new one starts the clock again
  std::string note_;   // a new one is drawn at once
  double stage_start_ = 0.0, done_before_ = 0.0, last_done_ = 0.0, next_drawing_ = 0.0;
  std::string bar_;  // as it stands on the terminal; empty when it does not
};

/// True while a bar stands on the terminal: a signal handler then ends the line before the program leaves.
bool progress_bar_is_visible();

}  // namespace nibble::cli
