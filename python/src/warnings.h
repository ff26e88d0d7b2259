#pragma once

#include <span>
#include <string>

#include "model/checkpoint/checkpoint.h"

namespace nibble::python {

/// Python's UserWarning, one of each sentence. Needs the interpreter's lock; throws nanobind::python_error where the
/// user made errors of warnings.
void warn(std::span<const std::string> sentences);

/// Of what the checkpoint holds and its network has no use for, as the command line warns of it.
void warn_of_unexpected_tensors(const model::Checkpoint& checkpoint);

}  // namespace nibble::python
