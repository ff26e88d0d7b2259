#include "model/tokenizer/open_tokenizer.h"

#include "core/error.h"
#include "model/tokenizer/files/gpt2_files.h"
#include "model/tokenizer/files/sentencepiece_file.h"
#include "model/tokenizer/files/text_file.h"
#include "model/tokenizer/files/tokenizer_config.h"
#include "model/tokenizer/files/tokenizer_json.h"
#include "model/tokenizer/pipeline.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::model {

TokenizerSpec read_tokenizer(const std::filesystem::path& directory) {
  const TokenizerConfig config = read_tokenizer_config(directory / "tokenizer_config.json");
  const auto json = directory / "tokenizer.json";
  if (file_exists(json)) return read_tokenizer_json(json, config);
  const auto vocabulary = directory / "vocab.json";
  const auto merges = directory / "merges.txt";
  if (file_exists(vocabulary) && file_exists(merges)) return read_gpt2_files(vocabulary, merges, config);
  const auto sentencepiece = directory / "tokenizer.model";
  NIBBLE_REQUIRE(file_exists(sentencepiece), FormatError,
                 "'{}' has no tokenizer: neither tokenizer.json, nor vocab.json with merges.txt, nor tokenizer.model",
                 directory.string());
  return read_sentencepiece_file(sentencepiece, config);
}

std::shared_ptr<const Tokenizer> Tokenizer::open(const std::filesystem::path& directory) {
  return make_tokenizer(read_tokenizer(directory));
}

}  // namespace nibble::model
