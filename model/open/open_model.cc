#include "model/open/open_model.h"

#include "model/gguf/gguf_checkpoint.h"
#include "model/gguf/gguf_file.h"
#include "model/gguf/gguf_tokenizer.h"
#include "model/tokenizer/open_tokenizer.h"

namespace nibble::model {

bool is_gguf_path(const std::filesystem::path& path) {
  std::error_code ignored;
  return path.extension() == ".gguf" && !std::filesystem::is_directory(path, ignored);
}

std::shared_ptr<const Checkpoint> open_checkpoint(const std::filesystem::path& path) {
  return is_gguf_path(path) ? open_gguf_checkpoint(path) : Checkpoint::open(path);
}

std::shared_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& path) {
  if (!is_gguf_path(path)) return Tokenizer::open(path);
  return make_gguf_tokenizer(GgufFile::open(path)->metadata());
}

std::shared_ptr<const Tokenizer> open_tokenizer_if_any(const std::filesystem::path& path) {
  if (is_gguf_path(path)) {
    const auto file = GgufFile::open(path);
    return has_gguf_tokenizer(file->metadata()) ? make_gguf_tokenizer(file->metadata()) : nullptr;
  }
  return has_tokenizer(path) ? Tokenizer::open(path) : nullptr;
}

}  // namespace nibble::model
