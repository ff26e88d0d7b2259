#pragma once

#include "eval/sweep/record.h"

namespace nibble::eval {

/// SweepOptions::environment: `build` (which code made it: version, commit, compiler) and what it runs on: processor,
/// instruction set, matrix library, threads.
Facts run_environment(Facts build);

}  // namespace nibble::eval
