#pragma once

#include <cstddef>
#include <span>

#include "eval/sweep/planned_sweep.h"
#include "eval/sweep/sweep_spec.h"
#include "quant/recipe/recipe.h"

namespace nibble::eval {

/// Reads the tokens of an evaluation for a model. Throws FormatError.
std::shared_ptr<const EvaluationTokens> read_tokens(const SweepEvaluation& evaluation, const PlannedModel& model);

/// The options of an evaluation with every default filled in.
PerplexityOptions perplexity_options(const SweepEvaluation& evaluation, const PlannedModel& model,
                                     const std::shared_ptr<const EvaluationTokens>& tokens);

/// How many windows behind the `samples` of a calibration a recipe's tuning has: those of its `windows` that are more,
/// and those it holds out. 0 without tuning.
std::size_t windows_behind(const quant::Recipe& recipe, std::size_t samples);

/// Reads or samples the windows of one draw of a calibration, which is to collect `what`, and as many behind them as
/// any of the recipes needs. Throws FormatError, InvalidArgument.
PlannedCalibration read_calibration(const SweepCalibration& calibration, const CalibrationDraw& draw,
                                    const PlannedModel& model, const calib::StatisticSet& what,
                                    std::span<const SweepRecipe> recipes);

/// Whether a run over the windows of `whole` makes the statistics of `part` besides, to the bit (calib::calibrate):
/// those of its first windows, up to the end of a batch, with all else the same.
bool is_part_of(const PlannedCalibration& part, const PlannedCalibration& whole, const PlannedModel& model);

}  // namespace nibble::eval
