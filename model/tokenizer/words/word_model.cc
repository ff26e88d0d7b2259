#include "model/tokenizer/words/word_model.h"

#include "core/error.h"

namespace nibble::model {

void throw_no_token(std::string_view where, std::string_view character) {
  std::string bytes;
  for (const char byte : character) bytes += fmt::format(" {:02X}", static_cast<unsigned char>(byte));
  throw FormatError(fmt::format("{}: the vocabulary has no token for the bytes{} and no unk_token", where, bytes));
}

}  // namespace nibble::model
