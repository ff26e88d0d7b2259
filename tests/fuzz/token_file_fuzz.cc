#include "datasets/token_file.h"
#include "tests/fuzz/fuzz.h"

// The first byte says how wide the ids of the rest are.
NIBBLE_FUZZ(input) {
  if (input.empty()) return;
  const auto file = nibble::fuzz::file(input[0] % 2 == 0 ? "ids.u16" : "ids.u32", input.substr(1));
  nibble::datasets::read_token_file(file, 50'000, 3);
  nibble::datasets::read_token_file(file, 50'000);
}
