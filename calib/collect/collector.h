#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "calib/collect/plan.h"
#include "calib/collect/team.h"
#include "calib/stats/run_settings.h"
#include "calib/stats/stats_file.h"
#include "core/progress.h"
#include "model/transformer/transformer.h"

namespace nibble::calib {

/// Where the means come from that gradients are centred with: dYᵀ(X - mean) in place of dYᵀX, as if the mean input were
/// in the bias.
enum class Centre {
  kNone,
  kOwn,   ///< from this run's own forward pass
  kFile,  ///< from an earlier calibration file; 0 for an expert that none of its tokens chose
};

/// One calibration, from token windows to a file.
struct CalibrationJob {
  const model::Model& model;
  std::span<const TokenId> tokens;  ///< windows of settings.window_tokens, one after the other
  /// The caller fills what it knows: hashes of model, tokenizer and text, sampling, seeds, flavour, labels, head,
  /// collected, window_tokens. calibrate() fills in the rest.
  RunSettings settings;
  Centre centre = Centre::kNone;
  std::shared_ptr<const StatsFile> means = nullptr;  ///< with Centre::kFile
  /// With Guide::kWhitened: the windows that give the metric (token_metric.h). Empty: the first kGuideWindows
  /// of `tokens`, or all.
  std::span<const TokenId> metric_tokens = {};
  std::filesystem::path output;
  std::uint64_t memory_bytes = std::uint64_t{4} << 30;  ///< most of all that it holds: plan_calibration()
  ProgressSink progress = {};                           ///< in tokens, weighted by the work of each pass
  Team* team = nullptr;                                 ///< null: alone
};

/// Throws InvalidArgument for windows that are longer than the positions that the model has learned.
void require_window_length(const model::Architecture& architecture, std::size_t tokens);

/// The settings as they will stand in the file: with windows, their hash, kernels and centring. Throws InvalidArgument
/// for tokens that are no whole number of windows, windows of one token, a file of means that does not fit.
RunSettings complete_settings(const CalibrationJob& job);

/// What the job will take (of this member of the team).
CalibrationPlan plan_job(const CalibrationJob& job);

/// Runs the model over the windows, block by block: forward, keeping the residual stream at the boundaries, then
/// backward with each block recomputed from its boundary, and writes the calibration file (docs/formats.md).
///
/// Guide     kWhitened: the first windows are run once before, for the metric; killed and taken up like the rest.
/// Memory    one block's sums, one batch, and the boundaries where they fit memory_bytes; else those are in files.
/// Resuming  finished layers wait as shards in OUTPUT.work; a run that was killed is taken up where it stood when it is
///           called again with the same settings, and ends in the same bytes. A complete output of the same settings
///           is left as it is.
/// Result    the same bytes for any number of threads and any memory_bytes, on one machine.
/// Returns   how much of the work this call did: 1, less where it went on with an earlier one, 0 where the output was
///           there.
/// Throws    InvalidArgument (settings differ from the output's or the unfinished run's, naming which; something came
///           under the output's name meanwhile: the work stays for when that is free), NumericalError
///           (NaN or infinity: layer, window, position; nothing is written under the output's name), FormatError
///           (disk). Of a team also InvalidArgument where its members have other models, windows, settings or kernels.
///
/// Parts     jobs over the first windows of this one, alike in all else: their outputs come from the same run, with the
///           bytes that calibrate() would give them alone. Each has to end with a batch (windows_per_batch() of
///           plan.h), which makes those bytes; nothing may depend on all windows (Centre::kOwn); and it is done alone,
///           not in a team; with a whitened guide it has kGuideWindows windows or more. An output that is there stays.
///           A part that an earlier run, which was killed, did not have may be missing in the end.
double calibrate(const CalibrationJob& job, std::span<const CalibrationJob> parts = {});

}  // namespace nibble::calib
