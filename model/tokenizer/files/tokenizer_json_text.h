#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/tokenizer/spec.h"

namespace nibble::model {

/// A tokenizer as the text of a tokenizer.json that Hugging Face's tokenizers and read_tokenizer_json() take.
///
/// Scores   (kScoredBpe) become a list of merges: every way to cut a piece in two, the highest score first. That gives
///          SentencePiece's ids, but where two different pieces of one score could merge in one word (SentencePiece
///          takes the leftmost then; trained vocabularies have no such scores), or where half of a piece is a character
///          that is no piece (there is no merge of such).
/// Tokens   of one spelling: only the one that texts are made of keeps it; the others are never produced and get their
///          id appended. Added tokens stand in the vocabulary too: Hugging Face's tokenizers give ids of their own to
///          those that do not.
/// Errors   FormatError naming spec.where: Unigram models, SentencePiece's normalisation, tokens that are not UTF-8.
std::string tokenizer_json_text(const TokenizerSpec& spec);

/// "bos_token" and its like, and which token it is.
using NamedTokens = std::vector<std::pair<std::string, TokenId>>;

/// The tokenizer_config.json to go with it. A token that texts are made of and that is named all the same (a file's bos
/// may be '"') is left out: what is named is found in texts before anything is merged. Not so eos_token, for nothing
/// else says where a text ends.
std::string tokenizer_config_text(const TokenizerSpec& spec, const NamedTokens& named);

}  // namespace nibble::model
