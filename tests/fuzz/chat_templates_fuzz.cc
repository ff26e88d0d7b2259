#include "export/gguf/chat_templates.h"
#include "tests/fuzz/fuzz.h"

NIBBLE_FUZZ(input) {
  const auto files = nibble::fuzz::parts(input, 2);
  nibble::fuzz::file_if_any("chat_template.jinja", files[0]);
  nibble::fuzz::file_if_any("tokenizer_config.json", files[1]);
  nibble::exporting::read_chat_templates(nibble::fuzz::directory());
}
