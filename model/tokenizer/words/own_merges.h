#pragma once

#include "model/tokenizer/spec.h"

namespace nibble::model {

/// Whether merges make every token of a BPE vocabulary (kBpe) out of its own characters: `ignore_merges` changes
/// nothing then. Cost: about that of encoding the vocabulary.
bool merges_make_every_token(const TokenizerSpec& spec);

}  // namespace nibble::model
