#include "quant/store/quantization_config.h"
#include "tests/fuzz/fuzz.h"

NIBBLE_FUZZ(input) { nibble::quant::parse_quantization_config(input, "input"); }
