#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "model/tokenizer/spec.h"

namespace nibble::model {

/// Ids are below this.
inline constexpr std::uint64_t kMaxVocabulary = std::uint64_t{1} << 24;

/// Fills `tokens` and `id_of` from {"token": id, …} and spec.added, which it sorts by id. Throws FormatError unless the
/// ids are 0, 1, 2, … without a hole, each of one token, and added tokens are distinct and agree with the model's.
void set_vocabulary(TokenizerSpec& spec, const nlohmann::json& vocabulary, const std::string& where);

/// Appends the merge of two tokens. Throws FormatError unless they and the merged one are in the vocabulary.
void add_merge(TokenizerSpec& spec, std::string_view left, std::string_view right, const std::string& where);

/// The id of a token of the model or an added one, or FormatError: "`where`: `role` '…' is not in the vocabulary".
TokenId require_token(const TokenizerSpec& spec, std::string_view token, std::string_view role);

}  // namespace nibble::model
