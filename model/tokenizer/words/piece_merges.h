#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/tokenizer/spec.h"
#include "model/tokenizer/words/merge_table.h"

namespace nibble::model {

/// SentencePiece's BPE has no list of merges: two neighbours may merge if their text together is a piece, and the piece
/// of the highest score goes first (the leftmost of equals). As merges of ids: every way to cut a piece in two. A
/// character that is no piece itself can still be half of one, so such characters get ids behind the vocabulary's.
struct PieceMerges {
  std::vector<RankedMerge> merges;
  std::unordered_map<std::string_view, TokenId> characters;  // which are no pieces: ids from spec.tokens.size() on
};

/// Throws FormatError for a normal piece of more than 1024 bytes, and for an unused piece that merges could reach:
/// SentencePiece would cut that up again. Cost O(bytes of the vocabulary · length of a piece).
PieceMerges piece_merges(const TokenizerSpec& spec);

}  // namespace nibble::model
