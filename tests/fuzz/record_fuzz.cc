#include "eval/sweep/record.h"
#include "tests/fuzz/fuzz.h"

NIBBLE_FUZZ(input) { nibble::eval::record_text(nibble::eval::parse_record(input, "input")); }
