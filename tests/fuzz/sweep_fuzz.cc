#include "eval/sweep/sweep_file.h"
#include "tests/fuzz/fuzz.h"

NIBBLE_FUZZ(input) { nibble::eval::parse_sweep(input, "input"); }
