#include "model/tokenizer/agreement.h"

#include <algorithm>

#include "core/error.h"

namespace nibble::model {

bool agree_on(std::span<const TokenId> tokens, const Tokenizer& a, const Tokenizer& b) {
  if (a.fingerprint() == b.fingerprint()) return true;
  const std::size_t known = std::min(a.vocabulary_size(), b.vocabulary_size());
  const bool both_know_all = std::all_of(tokens.begin(), tokens.end(), [&](TokenId id) { return id < known; });
  return both_know_all && a.decode(tokens) == b.decode(tokens);
}

void require_agreement(std::span<const TokenId> tokens, const Tokenizer& models, const Tokenizer* other,
                       std::string_view whose) {
  NIBBLE_REQUIRE(other == nullptr || agree_on(tokens, *other, models), InvalidArgument,
                 "{} has another tokenizer than the model", whose);
}

}  // namespace nibble::model
