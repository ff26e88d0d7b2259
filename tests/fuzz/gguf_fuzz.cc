#include <algorithm>
#include <span>
#include <vector>

#include "model/gguf/gguf_header.h"
#include "tests/fuzz/fuzz.h"

// The container, and the first blocks of every tensor decoded: any bits are a block.
NIBBLE_FUZZ(input) {
  using namespace nibble::model;
  const GgufContents contents = parse_gguf(std::as_bytes(std::span(input)), "input");
  for (const GgufTensor& tensor : contents.tensors) {
    const BlockTypeInfo& type = block_type_info(tensor.type);
    if (type.decode == nullptr) continue;
    const std::size_t blocks = std::min<std::size_t>(tensor.data.size() / type.bytes, 4);
    std::vector<float> values(blocks * type.weights);
    type.decode(tensor.data.data(), blocks, values.data());
  }
}
