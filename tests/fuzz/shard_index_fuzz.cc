#include "model/checkpoint/shard_index.h"
#include "tests/fuzz/fuzz.h"

NIBBLE_FUZZ(input) { nibble::model::read_shard_index(nibble::fuzz::file("model.safetensors.index.json", input)); }
