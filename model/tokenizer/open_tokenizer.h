#pragma once

#include <filesystem>

#include "model/tokenizer/spec.h"

namespace nibble::model {

/// Whether there is one: the files of any of the kinds that are read.
bool has_tokenizer(const std::filesystem::path& directory);

/// The tokenizer of a directory as values: what Tokenizer::open() makes one of. Throws FormatError as that does.
TokenizerSpec read_tokenizer(const std::filesystem::path& directory);

}  // namespace nibble::model
