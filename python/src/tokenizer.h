#pragma once

#include <filesystem>
#include <memory>

#include "model/tokenizer/tokenizer.h"

namespace nibble::python {

/// The tokenizer beside a checkpoint, or null where there is none. Throws FormatError for one that is malformed.
std::shared_ptr<const model::Tokenizer> tokenizer_of(const std::filesystem::path& checkpoint);

}  // namespace nibble::python
