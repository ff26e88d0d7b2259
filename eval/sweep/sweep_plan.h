#pragma once

#include "eval/sweep/planned_sweep.h"

namespace nibble::eval {

/// Plans the sweep. Throws InvalidArgument (settings that a model does not allow, recipes that need a calibration the
/// sweep does not have), FormatError (files).
SweepPlan plan_sweep(const SweepSpec& spec);

/// A plan of the one cell of a record, from the paths in its `sources`. Throws also FormatError where nothing is there,
/// and InvalidArgument when these hold something else now than the record says, naming it.
SweepPlan plan_repetition(const SweepRecord& record);

}  // namespace nibble::eval
