#pragma once

#include "eval/sweep/planned_sweep.h"

namespace nibble::eval {

/// The tokenizer of a checkpoint directory, or null if it has none. Throws FormatError for one that is malformed.
std::shared_ptr<const model::Tokenizer> tokenizer_of(const std::filesystem::path& model);

/// Reads the tokens of an evaluation for a model. Throws FormatError.
std::shared_ptr<const EvaluationTokens> read_tokens(const SweepEvaluation& evaluation, const PlannedModel& model);

/// The options of an evaluation with every default filled in.
PerplexityOptions perplexity_options(const SweepEvaluation& evaluation, const PlannedModel& model,
                                     const std::shared_ptr<const EvaluationTokens>& tokens);

/// Reads or samples the windows of one draw of a calibration, which is to collect `what`, and as many behind them as
/// `further` says. Throws FormatError, InvalidArgument.
PlannedCalibration read_calibration(const SweepCalibration& calibration, const CalibrationDraw& draw,
                                    const PlannedModel& model, const calib::StatisticSet& what, std::size_t further);

/// Whether a run over the windows of `whole` makes the statistics of `part` besides, to the bit (calib::calibrate):
/// those of its first windows, up to the end of a batch, with all else the same.
bool is_part_of(const PlannedCalibration& part, const PlannedCalibration& whole, const PlannedModel& model);

}  // namespace nibble::eval
