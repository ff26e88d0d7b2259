#pragma once

#include "calib/stats/statistic_set.h"
#include "quant/job/plan/plan.h"

namespace nibble::quant {

/// The statistics without which `recipe` cannot be carried out: for the settings of its weights, for scaling inputs,
/// and for its budget's estimate of losses (`auto`: the least that will do, Fisher sensitivities where errors are
/// independent, else guided Hessians). What `sequential` collects on the way is not among them. `plan` is the recipe's.
/// Throws InvalidArgument as input_groups() does.
calib::StatisticSet statistics_needed(const Plan& plan, const Recipe& recipe);

/// Whether they are to be of the head too: a rule names it, or the embedding that it is tied to.
bool needs_head(const Plan& plan);

/// Whether text has to run through the model: `sequential`, `tuning`, probes of a budget.
bool needs_text(const Plan& plan, const Recipe& recipe);

}  // namespace nibble::quant
