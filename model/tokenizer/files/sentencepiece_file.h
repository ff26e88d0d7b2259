#pragma once

#include <filesystem>

#include "model/tokenizer/files/tokenizer_config.h"
#include "model/tokenizer/spec.h"

namespace nibble::model {

/// tokenizer.model: a model of the sentencepiece library (a Protocol Buffers message, sentencepiece_model.proto), BPE
/// or Unigram. Ids are exactly the library's. Control pieces are not looked for in texts unless tokenizer_config.json
/// lists them as added tokens; BOS is added where it says add_bos_token. Where it says that LlamaTokenizer is not
/// `legacy`, ids are those of transformers: a space goes before the whole text alone, if none is there. Throws
/// FormatError, also for what is not supported: words and characters as models, denormalisation rules, suffixes with
/// BPE, `legacy: false` beside other normalisation.
TokenizerSpec read_sentencepiece_file(const std::filesystem::path& path, const TokenizerConfig& config);

}  // namespace nibble::model
