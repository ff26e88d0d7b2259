#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "eval/sweep/hand_out.h"
#include "eval/sweep/record.h"
#include "eval/sweep/sweep_plan.h"

namespace nibble::eval {

/// How far a sweep is.
struct SweepProgress {
  std::string stage;        ///< "calibrating NAME", "waiting for another process …", or empty: cells are in work
  std::size_t cells = 0;    ///< of this sweep (or shard)
  std::size_t present = 0;  ///< of earlier runs, with a result or a failure that is not tried again
  std::size_t done = 0;     ///< with a result, those present included
  std::size_t failed = 0;   ///< with an error
  double share = 0.0;       ///< of the work of this run that is done, cells in work included, by estimated cost
  double seconds = 0.0;     ///< since the cells of this run began
};

struct SweepOptions {
  std::filesystem::path output;
  std::filesystem::path cache;  ///< empty: in the output
  std::uint64_t cache_bytes = std::uint64_t{20} << 30;
  std::uint64_t memory_bytes = std::uint64_t{4} << 30;  ///< for all cells in work together, and for calibrations
  bool retry_failed = false;
  Shard shard = {};
  Facts environment = {};  ///< for the records
  /// Gives out the jobs among several processes; null: this one does all. Called with the number of jobs.
  std::function<std::unique_ptr<HandOut>(std::size_t jobs)> hand_out = {};
  /// Both are called by one thread at a time, under the lock that all workers report under: a slow one stalls them all.
  std::function<void(const SweepProgress&)> progress = {};
  std::function<void(const SweepRecord&)> finished = {};
};

struct SweepSummary {
  std::size_t cells = 0, present = 0;  ///< in all; there before
  std::size_t done = 0, failed = 0;    ///< by this process
  double seconds = 0.0;                ///< wall time
  double calibration_seconds = 0.0;    ///< of it, for calibrations
  double reference_seconds = 0.0;      ///< and for float models that cells are compared with
};

/// Runs every cell of `plan` whose record is not in the output: calibrations first, and float models
/// that several cells are compared with, on all threads, each once (a cache holds them); then jobs side by side on
/// their own threads (quantized models are scratch files, never flushed), and after them those that run text through
/// the model, one at a time.
///
/// Killing   at any moment loses the cells in work, and nothing of them shows; the same command goes on. The records
///           are the same as an undisturbed run's, timings aside.
/// Sharing   several sweeps may run in one output: a job that another process works at is passed over and, at the end,
///           waited for (a claim of the dead is void: claims.h).
/// Speed     jobs with a cell that measures speed come last, one at a time and on all threads; on one machine, nothing
///           else of the sweeps in this output runs meanwhile.
/// Failing   a cell that throws becomes a record with its error, and so do all cells of a calibration that throws. A
///           failed one is done again with `retry_failed` only.
/// Throws    FormatError when the disk is full or the output cannot be written: nothing of it is recorded as a failure.
SweepSummary run_sweep(const SweepPlan& plan, const SweepOptions& options);

}  // namespace nibble::eval
