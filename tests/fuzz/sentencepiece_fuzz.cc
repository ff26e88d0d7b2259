#include "model/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"

NIBBLE_FUZZ(input) {
  const auto files = nibble::fuzz::parts(input, 4);
  nibble::fuzz::file("tokenizer.model", files[0]);
  nibble::fuzz::file_if_any("tokenizer_config.json", files[1]);
  nibble::fuzz::file_if_any("special_tokens_map.json", files[2]);
  nibble::fuzz::file_if_any("added_tokens.json", files[3]);
  const auto tokenizer = nibble::model::Tokenizer::open(nibble::fuzz::directory());
  tokenizer->decode(tokenizer->encode("Hello, w\xc3\xb6rld!  12 a\xff\n"));
}
