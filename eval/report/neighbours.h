#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "eval/report/pivot.h"

namespace nibble::eval {

/// Windows that are taken together in a run, and runs below which nothing is said: the ratio of errors then has an
/// error of its own of 1 / √(2 · 15) = 18 %.
constexpr std::size_t kRunWindows = 8, kFewestRuns = 16;

/// By what the error of a mean grows where windows in a row are taken together, since neighbours in a text are alike:
///
///   se(means of runs of kRunWindows windows) / se(means of these windows),        weighted_mean() for both
///
/// 1 for independent windows; √kRunWindows where windows of a run are the same (the method of batch means, Conway 1963,
/// Management Science 10). Windows after the last whole run are left out. Empty for fewer than kFewestRuns runs, and
/// where windows do not differ.
std::optional<double> error_of_runs(std::span<const double> windows, std::span<const std::uint64_t> weights = {});

/// The medians of that over the cells of one model and evaluation, of their figures and of their differences from the
/// lowest, as a sentence for a table's caption. Empty where texts are too short, and of several texts
/// together (pooled_texts.h).
std::string neighbours_text(const Entries& entries);

}  // namespace nibble::eval
