#include "eval/sweep/diff.h"
#include "tests/fuzz/fuzz.h"

// config.json, quantization.json and model.safetensors of a quantized checkpoint, compared with itself: all of it is
// loaded, and every matrix decoded.
NIBBLE_FUZZ(input) {
  const auto files = nibble::fuzz::parts(input, 3);
  nibble::fuzz::file("config.json", files[0]);
  nibble::fuzz::file_if_any("quantization.json", files[1]);
  nibble::fuzz::file("model.safetensors", files[2]);
  nibble::eval::diff_checkpoints(nibble::fuzz::directory(), nibble::fuzz::directory());
}
