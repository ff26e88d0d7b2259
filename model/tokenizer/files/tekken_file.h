#pragma once

#include <filesystem>

#include "model/tokenizer/files/tokenizer_config.h"
#include "model/tokenizer/spec.h"

namespace nibble::model {

/// tekken.json, which Mistral's models have, some of them alone: byte-level BPE whose merges stand in no list. Any two
/// neighbours merge if their bytes are a token, that of the lowest rank first, and a word that is a token is not
/// merged. Ids of `default_num_special_tokens` and more are those of the vocabulary, as far as `default_vocab_size`
/// goes; below them lie the special tokens, of which a text's are found as in a tokenizer.json (mistral_common itself
/// finds none in texts). Where a file does not list them (before version 8) they are those of that time. <s> goes
/// before a text unless the configuration says otherwise.
///
/// Where two overlapping pairs are one token ("a"+"aa" and "aa"+"a"), the one whose left half has the lower rank goes
/// first, as in the tokenizer.json that transformers makes of such a file; mistral_common takes the leftmost.
///
/// Throws FormatError. Cost: a lookup for each way to cut a token in two.
TokenizerSpec read_tekken_file(const std::filesystem::path& path, const TokenizerConfig& config);

}  // namespace nibble::model
