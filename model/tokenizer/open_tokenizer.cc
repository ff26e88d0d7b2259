#include "model/tokenizer/open_tokenizer.h"

#include "core/error.h"
#include "model/tokenizer/files/gpt2_files.h"
#include "model/tokenizer/files/sentencepiece_file.h"
#include "model/tokenizer/files/tekken_file.h"
#include "model/tokenizer/files/text_file.h"
#include "model/tokenizer/files/tokenizer_config.h"
#include "model/tokenizer/files/tokenizer_json.h"
#include "model/tokenizer/pipeline.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::model {

namespace {

bool has_json(const std::filesystem::path& directory) { return file_exists(directory / "tokenizer.json"); }
bool has_gpt2_files(const std::filesystem::path& directory) {
  return file_exists(directory / "vocab.json") && file_exists(directory / "merges.txt");
}
bool has_tekken(const std::filesystem::path& directory) { return file_exists(directory / "tekken.json"); }
bool has_sentencepiece(const std::filesystem::path& directory) { return file_exists(directory / "tokenizer.model"); }

}  // namespace

bool has_tokenizer(const std::filesystem::path& directory) {
  return has_json(directory) || has_gpt2_files(directory) || has_tekken(directory) || has_sentencepiece(directory);
}

TokenizerSpec read_tokenizer(const std::filesystem::path& directory) {
  TokenizerConfig config = read_tokenizer_config(directory / "tokenizer_config.json");
  if (has_json(directory)) {
    read_map_beside(config, directory);
    return read_tokenizer_json(directory / "tokenizer.json", config);
  }
  read_files_beside(config, directory);
  if (has_gpt2_files(directory)) return read_gpt2_files(directory / "vocab.json", directory / "merges.txt", config);
  if (has_tekken(directory)) return read_tekken_file(directory / "tekken.json", config);
  NIBBLE_REQUIRE(has_sentencepiece(directory), FormatError, "'{}' has no tokenizer: expected {}", directory.string(),
                 kTokenizerFiles);
  return read_sentencepiece_file(directory / "tokenizer.model", config);
}

std::shared_ptr<const Tokenizer> Tokenizer::open(const std::filesystem::path& directory) {
  return make_tokenizer(read_tokenizer(directory));
}

}  // namespace nibble::model
