#pragma once

#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"

namespace nibble::model {

/// Tensors of the checkpoint that its network has no use for, as its configuration describes it: they are left out of
/// all that is computed, as transformers does. Sorted. Constants that files of the family carry along are none, nor is
/// a tied head that repeats the embedding (read for that), or anything in this program's own quantized checkpoints,
/// which name what they store. Throws FormatError as Checkpoint::architecture().
std::vector<std::string> unexpected_tensors(const Checkpoint& checkpoint);

/// A sentence that names the first few of them for the user; empty if there are none.
std::string describe_unexpected_tensors(const Checkpoint& checkpoint);

/// What whoever opens the checkpoint should hear, a sentence each: of those tensors, of parts that are not read, and of
/// special tokens beyond the vocabulary.
std::vector<std::string> warnings(const Checkpoint& checkpoint);

}  // namespace nibble::model
