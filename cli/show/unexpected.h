#pragma once

#include "model/checkpoint/checkpoint.h"

namespace nibble::cli {

/// Warns once of all tensors of the checkpoint that nothing reads, the first few by name.
void warn_of_unexpected_tensors(const model::Checkpoint& checkpoint);

}  // namespace nibble::cli
