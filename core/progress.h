#pragma once

#include <functional>
#include <string_view>

namespace nibble {

/// How far a long piece of work is. Libraries report it; the command line draws it (rate, time left).
struct ProgressUpdate {
  std::string_view stage;  ///< what is going on, e.g. "perplexity"
  double done = 0.0;       ///< in units, 0 <= done <= total
  double total = 0.0;
  std::string_view unit;       ///< "tokens", "weights", …
  std::string_view note = {};  ///< how it goes, which may change while the work is the same; e.g. "best 12.3"
  double found = 0.0;          ///< of `done`, what an earlier run had done: it tells nothing of the rate
};

/// One call at a time, at most a few thousand per piece of work; from the thread that called the library unless it says
/// otherwise. May be empty.
using ProgressSink = std::function<void(const ProgressUpdate&)>;

}  // namespace nibble
