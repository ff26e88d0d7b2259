#include "model/tokenizer/spec.h"

#include <cmath>
#include <utility>

#include "core/error.h"

namespace nibble::model {

void check(const TokenizerSpec& spec) {
  const std::size_t size = spec.tokens.size();
  NIBBLE_REQUIRE(size > 0, FormatError, "{}: the vocabulary has no tokens", spec.where);
  // Each cuts or rewrites all of a text, and keeps words of its own.
  constexpr std::size_t kMostSteps = 64;
  for (const auto& [steps, what] :
       {std::pair(spec.normalizer.size(), "normalizer"), std::pair(spec.pre_tokenizer.size(), "pre_tokenizer"),
        std::pair(spec.decoder.size(), "decoder")})
    NIBBLE_REQUIRE(steps <= kMostSteps, FormatError, "{}: {}: expected at most {} steps, got {}", spec.where, what,
                   kMostSteps, steps);
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
  for (const auto& id : {spec.unknown, spec.eos}) {
    if (id) require_id(*id, "the id of a special token");
  }
  for (const TokenId id : spec.added_prefix) require_id(id, "the id of a special token");
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
