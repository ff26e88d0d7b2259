
#include "core/text/json.h"
#include "quant/recipe/recipe.h"
#include "tests/fuzz/fuzz.h"

NIBBLE_FUZZ(input) { nibble::quant::Recipe::parse(input, "input").canonical_json(); }
