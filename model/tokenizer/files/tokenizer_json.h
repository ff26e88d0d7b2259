#pragma once

#include <filesystem>

#include "model/tokenizer/files/tokenizer_config.h"
#include "model/tokenizer/spec.h"

namespace nibble::model {

/// tokenizer.json of Hugging Face's tokenizers, version 1.0. Throws FormatError, also for parts that are not supported,
/// naming them. `truncation` and `padding` are settings of its callers and have no effect here.
TokenizerSpec read_tokenizer_json(const std::filesystem::path& path, const TokenizerConfig& config);

}  // namespace nibble::model
