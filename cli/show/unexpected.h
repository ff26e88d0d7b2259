#pragma once

#include "model/checkpoint/checkpoint.h"

namespace nibble::cli {

/// Warns of what a checkpoint should not have: once of all tensors that nothing reads, the first few by name, and of
/// special tokens beyond the vocabulary.
void warn_of_unexpected(const model::Checkpoint& checkpoint);

}  // namespace nibble::cli
