#pragma once

#include "eval/sweep/sweep_plan.h"

namespace nibble::eval {

/// One forward pass over the windows of an evaluation; with a divergence, the head of the reference besides.
Cost evaluation_cost(const PlannedModel& model, const PlannedCell& cell);
/// The same pass of the float model, and what of it is kept.
Cost reference_cost(const PlannedModel& model, const PlannedReference& reference);
/// Decoding at each context of an evaluation of speed, all runs.
Cost speed_cost(const PlannedModel& model, const PlannedSpeed& speed);
/// Making the quantized model of a job within `memory` bytes, with windows of `window_tokens` where text runs through
/// it.
Cost quantization_cost(const PlannedModel& model, const PlannedJob& job, std::size_t window_tokens,
                       std::uint64_t memory);
/// A calibration within `memory` bytes. Throws InvalidArgument when it needs more.
Cost calibration_cost(const PlannedModel& model, const PlannedCalibration& calibration, std::uint64_t memory);

/// Fills in the costs of jobs and calibrations, and warns in the plan where the largest cell needs more than `memory`.
/// Seconds from the speed of this machine, which is measured (a few hundredths of a second).
void estimate(SweepPlan& plan, std::uint64_t memory);

/// Of a job's time, what making its model takes: by the plan's costs, of a plan without them a guess.
double quantizing_share(const PlannedJob& job);

/// Whether a job is run with nothing of its process beside it, on all threads and with all memory: one that measures
/// speed, or runs text through the model, which takes what it is granted.
bool takes_all(const PlannedJob& job);

/// Jobs that run side by side, each on threads / workers of `threads` threads, so that all fit `memory`; at least 1.
/// Those that take all do not count.
std::size_t workers_for(const std::vector<const PlannedJob*>& jobs, std::size_t threads, std::uint64_t memory);

}  // namespace nibble::eval
