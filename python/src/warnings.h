#pragma once

#include <span>
#include <string>

#include "model/checkpoint/checkpoint.h"

namespace nibble::python {

/// Python's UserWarning, one of each sentence. Needs the interpreter's lock; throws nanobind::python_error where the
/// user made errors of warnings.
void warn(std::span<const std::string> sentences);

/// Of what the checkpoint holds and its network has no use for, and of special tokens that it does not have, as the
/// command line warns of them.
void warn_of_unexpected(const model::Checkpoint& checkpoint);

}  // namespace nibble::python
