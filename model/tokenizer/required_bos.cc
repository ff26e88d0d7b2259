#include "model/tokenizer/required_bos.h"

#include <optional>

#include "core/error.h"

namespace nibble::model {

TokenId required_bos(const Tokenizer* tokenizer) {
  NIBBLE_REQUIRE(tokenizer != nullptr, InvalidArgument,
                 "bos: expected a tokenizer beside the model, which says what goes before a text; there is none");
  const std::optional<TokenId> bos = tokenizer->added_bos();
  NIBBLE_REQUIRE(bos, InvalidArgument,
                 "bos: expected a tokenizer that puts one token before texts, and the model's puts {} there; windows "
                 "without it are what the model knows",
                 tokenizer->added_prefix().size());
  return *bos;
}

}  // namespace nibble::model
