#include "model/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"

NIBBLE_FUZZ(input) {
  const auto texts = nibble::fuzz::parts(input, 5);
  nibble::fuzz::file("vocab.json", texts[0]);
  nibble::fuzz::file("merges.txt", texts[1]);
  nibble::fuzz::file_if_any("tokenizer_config.json", texts[2]);
  nibble::fuzz::file_if_any("special_tokens_map.json", texts[3]);
  nibble::fuzz::file_if_any("added_tokens.json", texts[4]);
  const auto tokenizer = nibble::model::Tokenizer::open(nibble::fuzz::directory());
  tokenizer->decode(tokenizer->encode("Hello, w\xc3\xb6rld!  12 a\xff\n"));
}
