#pragma once

#include "model/tokenizer/words/merge_table.h"
#include "model/tokenizer/words/word_model.h"

namespace nibble::model {

/// Merges scratch.symbols (their ids; the links are set here): of all neighbours that have a merge, the pair of the
/// lowest rank (leftmost of equals) becomes one symbol, until none has. What is left is linked by `next` from symbol 0
/// on. Cost O(n log n) for n symbols, at least one.
void merge_symbols(const MergeTable& merges, WordModel::Scratch& scratch);

}  // namespace nibble::model
