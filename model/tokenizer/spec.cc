#include "model/tokenizer/spec.h"

#include <cmath>

#include "core/error.h"

namespace nibble::model {

void check(const TokenizerSpec& spec) {
  const std::size_t size = spec.tokens.size();
  NIBBLE_REQUIRE(size > 0, FormatError, "{}: the vocabulary has no tokens", spec.where);
  const auto require_id = [&](TokenId id, const char* role) {
    NIBBLE_REQUIRE(id < size, FormatError, "{}: {} {} is not below the vocabulary size {}", spec.where, role, id, size);
  };
  for (const TokenizerSpec::Merge& merge : spec.merges) {
    for (const TokenId id : {merge.left, merge.right, merge.merged}) require_id(id, "the id of a merge");
  }
  for (const auto& [token, id] : spec.id_of) require_id(id, "id");
  for (const AddedToken& token : spec.added) {
    require_id(token.id, "the id of an added token");
    NIBBLE_REQUIRE(!token.content.empty(), FormatError, "{}: added token {} has no content", spec.where, token.id);
  }
  for (const auto& id : {spec.unknown, spec.added_bos, spec.eos}) {
    if (id) require_id(*id, "the id of a special token");
  }
  for (const auto& [id, text] : spec.decoded) require_id(id, "id");
  NIBBLE_REQUIRE(spec.kinds.empty() || spec.kinds.size() == size, FormatError, "{}: {} kinds for {} tokens", spec.where,
                 spec.kinds.size(), size);
  if (spec.model == TokenizerSpec::Model::kBpe) return;
  NIBBLE_REQUIRE(spec.scores.size() == size, FormatError, "{}: {} scores for {} tokens", spec.where, spec.scores.size(),
                 size);
  for (std::size_t id = 0; id < size; ++id) {
    NIBBLE_REQUIRE(std::isfinite(spec.scores[id]), FormatError, "{}: the score of token {} is not finite", spec.where,
                   id);
  }
}

}  // namespace nibble::model
