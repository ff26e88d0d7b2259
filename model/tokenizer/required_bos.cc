#include "model/tokenizer/required_bos.h"

#include <vector>

#include "core/error.h"

namespace nibble::model {

TokenId required_bos(const Tokenizer* tokenizer) {
  NIBBLE_REQUIRE(tokenizer != nullptr, InvalidArgument,
                 "bos: expected a tokenizer beside the model, which says what goes before a text; there is none");
  const std::vector<TokenId> prefix = tokenizer->added_prefix();
  NIBBLE_REQUIRE(!prefix.empty(), InvalidArgument,
                 "bos: expected a tokenizer that puts a BOS before texts, and the model's puts nothing there: windows "
                 "without one are what the model knows");
  NIBBLE_REQUIRE(prefix.size() == 1, InvalidArgument,
                 "bos: expected a tokenizer that puts one token before texts, and the model's puts {} there: windows "
                 "that begin with several cannot be made",
                 prefix.size());
  return prefix.front();
}

}  // namespace nibble::model
