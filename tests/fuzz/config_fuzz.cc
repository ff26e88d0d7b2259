#include "model/architecture/families.h"
#include "tests/fuzz/fuzz.h"

NIBBLE_FUZZ(input) { nibble::model::parse_architecture(input, "input"); }
