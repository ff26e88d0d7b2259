#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/spec.h"

namespace nibble::model {

/// Ids are below this.
inline constexpr std::uint64_t kMaxVocabulary = std::uint64_t{1} << 24;

/// Fills `tokens` and `id_of` from {"token": id, …} and spec.added, which it sorts by id, and `kinds` where ids between
/// them are of no token. Throws FormatError for an id of two tokens, 65,536 ids more than there are entries in both,
/// and added tokens that are not distinct, do not agree with the vocabulary, or are not in it and have other ids than
/// Hugging Face's tokenizers gives such: from as many on as the vocabulary has tokens.
void set_vocabulary(TokenizerSpec& spec, const nlohmann::json& vocabulary, const std::string& where);

/// Fills `tokens`, `kinds` and `id_of` from lists by id; `kinds` may be empty (all normal). Control and unknown tokens
/// are not found in texts, so they stay out of `id_of`; of two tokens of the same spelling the later counts. Throws
/// FormatError for no tokens, more than kMaxVocabulary, or lists of different lengths.
void set_tokens(TokenizerSpec& spec, std::vector<std::string> tokens, std::vector<TokenizerSpec::PieceKind> kinds);

/// Where the vocabulary is a list: adds the tokens of spec.added, which it sorts by id, that lie behind `tokens`, as
/// control tokens (which no text is made of). Throws FormatError unless their ids follow without a hole and the others
/// agree with `tokens`, and as check_added_tokens() does.
void append_added_tokens(TokenizerSpec& spec, std::vector<std::string>& tokens,
                         std::vector<TokenizerSpec::PieceKind>& kinds);

/// Throws FormatError unless the contents of spec.added are not empty, no two alike, and 4 MiB at most.
void check_added_tokens(const TokenizerSpec& spec, const std::string& where);

/// Appends the merge of two tokens. Throws FormatError unless they and the merged one are in the vocabulary.
void add_merge(TokenizerSpec& spec, std::string_view left, std::string_view right, const std::string& where);

/// The id of a token of the model or an added one, or FormatError: "`where`: `role` '…' is not in the vocabulary".
TokenId require_token(const TokenizerSpec& spec, std::string_view token, std::string_view role);

}  // namespace nibble::model
