#include "model/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"

NIBBLE_FUZZ(input) {
  const auto files = nibble::fuzz::parts(input, 2);
  nibble::fuzz::file("tekken.json", files[0]);
  nibble::fuzz::file_if_any("tokenizer_config.json", files[1]);
  const auto tokenizer = nibble::model::Tokenizer::open(nibble::fuzz::directory());
  tokenizer->decode(tokenizer->encode("abba [INST] abc"));
}
