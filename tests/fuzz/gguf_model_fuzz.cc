#include <vector>

#include "model/architecture/families.h"
#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_file.h"
#include "model/gguf/gguf_tokenizer.h"
#include "model/gguf/gguf_weights.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace nibble::model;

void read_weights(const std::shared_ptr<const GgufFile>& file) {
  const Architecture architecture = parse_architecture(gguf_config_json(*file), "input");
  const auto provider = make_gguf_provider(file, architecture);
  std::vector<float> row;
  std::size_t left = 32;  // a few show what all do
  for (const Parameter* parameter : matrices(architecture)) {
    if (left-- == 0) break;
    const auto source = provider->matrix(*parameter);
    row.resize(source->cols());
    source->decode_rows(0, 1, row.data());
  }
}

}  // namespace

// What the metadata of a file say: the network and the tokenizer, each whether or not the other is refused.
NIBBLE_FUZZ(input) {
  const auto file = GgufFile::open(nibble::fuzz::file("input.gguf", input));
  try {
    read_weights(file);
  } catch (const nibble::FormatError& error) {
    nibble::fuzz::refused(error);
  }
  const auto tokenizer = make_gguf_tokenizer(file->metadata());
  tokenizer->decode(tokenizer->encode("ab ba"));
  tokenizer->decode(tokenizer->encode("Hello, w\xc3\xb6rld!  12 a\xff\n"));
}
