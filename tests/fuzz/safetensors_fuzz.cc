#include <span>

#include "model/checkpoint/safetensors_file.h"
#include "tests/fuzz/fuzz.h"

NIBBLE_FUZZ(input) { nibble::model::parse_safetensors(std::as_bytes(std::span(input)), "input"); }
