#include "model/open/companions.h"

#include "core/files/output_directory.h"
#include "core/files/output_file.h"
#include "model/gguf/gguf_file.h"
#include "model/gguf/gguf_tokenizer.h"
#include "model/gguf/gguf_tokenizer_spec.h"
#include "model/open/open_model.h"

namespace nibble::model {
void add_companions(const std::filesystem::path& path, const std::filesystem::path& directory) {
  if (!is_gguf_path(path)) return copy_companions(path, directory);
  const auto file = GgufFile::open(path);
  const GgufMetadata& metadata = file->metadata();
  if (!has_gguf_tokenizer(metadata)) return;
  const TokenizerSpec spec = read_gguf_tokenizer(metadata);
  write_file(directory / "tokenizer.json", tokenizer_json_text(spec));
  write_file(directory / "tokenizer_config.json", tokenizer_config_text(spec, gguf_special_tokens(metadata)));
  if (const std::string* const chat = metadata.text("tokenizer.chat_template"))
    write_file(directory / "chat_template.jinja", *chat);
}

}  // namespace nibble::model
