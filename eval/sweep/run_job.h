#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <optional>

#include "eval/sweep/sweep_plan.h"

namespace nibble::eval {

/// What one job works with.
struct JobContext {
  const PlannedModel& model;
  std::filesystem::path calibration;            ///< file; empty: none
  const PlannedCalibration* windows = nullptr;  ///< of a job that has a calibration, and else null
  std::optional<CellError> failure;             ///< of its calibration: then the error of every cell
  std::filesystem::path scratch;                ///< a directory for this job's model: made, and removed at the end
  /// The file of a cell's reference (kept_states.h); empty where the float model has to run.
  std::function<std::filesystem::path(const PlannedCell&)> reference;
  Facts environment;
  std::uint64_t memory_bytes = 0;  ///< for making the model: QuantizeOptions::memory_bytes
  /// Whether a cell is still to be done.
  std::function<bool(const PlannedCell&)> wanted;
  /// Receives each cell's record as soon as it is there.
  std::function<void(const SweepRecord&)> finished;
  std::function<void(double share)> progress;  ///< of the job's work, in [0, 1]
};

/// Quantizes the job's model and runs its evaluations. What goes wrong with a cell is its record's error, and other
/// cells go on. Throws FormatError when the disk is full: no cell is to blame.
void run_job(const PlannedJob& job, const JobContext& context);

/// Runs `work`; an exception becomes the answer, unless the disk is full: that one passes through.
std::optional<CellError> guarded(const std::function<void()>& work);

/// An exception as a record tells it.
CellError cell_error(const std::exception& error);

/// Whether an error carries the system's code for a full disk, an exhausted quota or a file at its largest size.
bool is_disk_full(const std::exception& error);

}  // namespace nibble::eval
