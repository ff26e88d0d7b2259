#include "model/checkpoint/safetensors_header.h"
#include "tests/fuzz/fuzz.h"

NIBBLE_FUZZ(input) { nibble::model::parse_safetensors_header(input, "input"); }
