#include "model/transformer/config.h"
#include "tests/fuzz/fuzz.h"

NIBBLE_FUZZ(input) { nibble::model::linear_layers(nibble::model::parse_config(input, "input")); }
