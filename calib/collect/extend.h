#pragma once

#include <filesystem>

#include "calib/collect/collector.h"

namespace nibble::calib {

/// The job of those windows that extend_calibration() runs: what it takes is told by plan_job() of it. Throws
/// InvalidArgument as extend_calibration().
CalibrationJob added_windows(const CalibrationJob& job, const std::filesystem::path& base);

/// calibrate(), but windows that `base` holds already are not run again: the first windows of `job` must be all of
/// base's. The others are collected beside the output (OUTPUT.added), and added to it by merge_stats(). The settings
/// are those of a file made at once, and so are the numbers but for the rounding of merge_stats(), and, where base does
/// not end with a batch (windows_per_batch()), that of matrix products of other sizes.
///
/// Throws as calibrate() and merge_stats(); InvalidArgument, before any work, where base was not made from the first
/// windows of the job, or from fewer of them than there are, in the same way (naming what differs), or where what is
/// collected depends on the other windows: sampled labels, gradients centred with the run's own means, and a whitened
/// guide where base holds fewer windows than its metric comes from (kGuideWindows).
/// Cost: that of the windows that are new. Returns what calibrate() returns, of these.
double extend_calibration(const CalibrationJob& job, const std::filesystem::path& base);

}  // namespace nibble::calib
