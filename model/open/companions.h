#pragma once

#include <filesystem>

namespace nibble::model {

/// Puts into `directory` what travels along with the model at `path`, flushed: the tokenizer's files, chat template,
/// licence. Of a directory they are copied; of a GGUF file tokenizer.json, tokenizer_config.json and
/// chat_template.jinja are made of its metadata, as far as it has a tokenizer. Throws FormatError: files that cannot be
/// read or written, a tokenizer that is not read or that no tokenizer.json holds.
void add_companions(const std::filesystem::path& path, const std::filesystem::path& directory);

}  // namespace nibble::model
