#pragma once

#include "eval/sweep/run_sweep.h"

namespace nibble::eval {

/// Does the cell of `record` again, from the paths in its `sources`, and returns the new record, which diff_records()
/// compares. It goes to options.output, or where that is empty to a scratch directory that is removed afterwards.
/// Throws as plan_repetition() and run_sweep(); InvalidArgument when the output has a record of this cell already.
SweepRecord repeat_record(const SweepRecord& record, SweepOptions options);

}  // namespace nibble::eval
