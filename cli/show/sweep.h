#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

#include "cli/terminal/progress_bar.h"
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
  eval::SweepProgress last_;
  std::optional<eval::SweepRecord> best_;  // of the first evaluation
  std::set<std::string> warned_;           // cells of one model have the same warnings
};

/// Whether it may be called the best of a sweep: a quantized model whose quality was measured.
bool may_be_best(const eval::SweepRecord& record);
/// Whether `a` has the lower KL divergence from the float model, where both have one; else the lower perplexity.
bool is_better(const eval::SweepRecord& a, const eval::SweepRecord& b);

/// "3.030 bits per weight, KL 1.670 ± 0.050 mnat, perplexity 131.200 ± 4.260", or the error.
std::string outcome_text(const eval::SweepRecord& record);

/// Adds the divergence from the float model with its standard error to `line`, where the cell has it.
void add_divergence(const eval::SweepRecord& record, nlohmann::ordered_json& line);

/// --dry-run.
void show_plan(const eval::SweepPlan& plan, const eval::Shard& shard, std::uint64_t memory, bool json);
/// The table of all cells at the end. Throws NumericalError when some failed, so that scripts notice.
void show_results(const eval::SweepPlan& plan, const eval::SweepOptions& options, const eval::SweepSummary& summary,
                  bool json);
/// What --repeat found. Throws NumericalError unless the measures are the same.
void show_repetition(const eval::RecordDiff& diff, bool json);

}  // namespace nibble::cli
