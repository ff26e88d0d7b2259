#pragma once

#include <memory>
#include <string>

#include "cli/progress_bar.h"
#include "eval/sweep/diff.h"
#include "eval/sweep/run_sweep.h"
#include "eval/sweep/sweep_plan.h"

namespace nibble::cli {

/// What a running sweep says on standard error: a line for each finished cell, and below them a bar with the best cell
/// so far.
class SweepDisplay {
 public:
  SweepDisplay(bool quiet, bool with_bar);
  void update(const eval::SweepProgress& progress);
  void finished(const eval::SweepRecord& record);
  void close();

 private:
  bool quiet_ = false, with_bar_ = false;
  ProgressBar bar_;
  ProgressSink sink_;
  std::string stage_, best_;
  eval::SweepProgress last_;
};

/// "bits 3.03  perplexity 131.20 ± 4.26", or the error.
std::string outcome_text(const eval::SweepRecord& record);

/// --dry-run.
void show_plan(const eval::SweepPlan& plan, const eval::Shard& shard, std::uint64_t memory, bool json);
/// The table of all cells at the end. Throws NumericalError when some failed, so that scripts notice.
void show_results(const eval::SweepPlan& plan, const eval::SweepOptions& options, const eval::SweepSummary& summary,
                  bool json);
/// What --repeat found. Throws NumericalError unless the measures are the same.
void show_repetition(const eval::RecordDiff& diff, bool json);

}  // namespace nibble::cli
