#include "model/tokenizer/words/byte_ids.h"

#include "model/tokenizer/words/byte_alphabet.h"
#include "model/tokenizer/words/byte_tokens.h"

namespace nibble::model {

ByteIds::ByteIds(const TokenizerSpec& spec, bool byte_level) {
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    const char byte = static_cast<char>(static_cast<unsigned char>(i));
    const auto id = spec.id_of.find(byte_level ? spell_bytes({&byte, 1}) : byte_token(static_cast<std::uint8_t>(i)));
    if (id != spec.id_of.end()) ids_[i] = id->second;
  }
}

}  // namespace nibble::model
