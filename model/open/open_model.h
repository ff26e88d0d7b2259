#pragma once

#include <filesystem>
#include <memory>

#include "model/checkpoint/checkpoint.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::model {

/// The one place that knows what kinds of checkpoints there are: a file whose name ends in ".gguf" (the first of a
/// split) is a GGUF model; everything else is a directory in the shape of Hugging Face.
bool is_gguf_path(const std::filesystem::path& path);

/// Opens a checkpoint of either kind. Throws FormatError as Checkpoint::open() and open_gguf_checkpoint().
std::shared_ptr<const Checkpoint> open_checkpoint(const std::filesystem::path& path);

/// The tokenizer that a checkpoint comes with: the directory's, or the one in the file's metadata (no tensors are
/// needed, so vocabularies without a model open too). Throws FormatError where there is none, or one that is not read.
std::shared_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& path);
/// The same, or null for a checkpoint without one: none of a tokenizer's files (docs/formats.md), no
/// `tokenizer.ggml.model`.
std::shared_ptr<const Tokenizer> open_tokenizer_if_any(const std::filesystem::path& path);

}  // namespace nibble::model
