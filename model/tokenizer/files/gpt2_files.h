#pragma once

#include <filesystem>

#include "model/tokenizer/files/tokenizer_config.h"
#include "model/tokenizer/spec.h"

namespace nibble::model {

/// vocab.json and merges.txt: byte-level BPE, <|endoftext|> as end of text if it is in the vocabulary. Words are cut by
/// GPT-2's rules, or by those of Qwen2 or GPT-NeoX where the configuration names their classes. Throws FormatError, for
/// other classes too, whose rules stand in no file.
TokenizerSpec read_gpt2_files(const std::filesystem::path& vocabulary, const std::filesystem::path& merges,
                              const TokenizerConfig& config);

}  // namespace nibble::model
