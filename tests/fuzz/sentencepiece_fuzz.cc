#include "model/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"

NIBBLE_FUZZ(input) {
  nibble::fuzz::file("tokenizer.model", input);
  const auto tokenizer = nibble::model::Tokenizer::open(nibble::fuzz::directory());
  tokenizer->decode(tokenizer->encode("Hello, w\xc3\xb6rld!  12 a\xff\n"));
}
