#pragma once

#include <filesystem>

#include "model/tokenizer/files/tokenizer_config.h"
#include "model/tokenizer/spec.h"

namespace nibble::model {

/// vocab.json and merges.txt, by GPT-2's rules: byte-level BPE, GPT-2's pattern, <|endoftext|> as end of text if it is
/// in the vocabulary. Throws FormatError.
TokenizerSpec read_gpt2_files(const std::filesystem::path& vocabulary, const std::filesystem::path& merges,
                              const TokenizerConfig& config);

}  // namespace nibble::model
