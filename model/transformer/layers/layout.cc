#include "model/transformer/layers/layout.h"

#include "core/error.h"

namespace nibble::model {
void check_tokens(const Architecture& architecture, std::span<const TokenId> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    NIBBLE_REQUIRE(tokens[i] < architecture.vocabulary, InvalidArgument,
                   "transformer: token [{}] is {}, but the vocabulary has {} ids; was the text made with another "
                   "tokenizer?",
                   i, tokens[i], architecture.vocabulary);
}

namespace {

void append_sequence(const Architecture& architecture, std::size_t index, std::size_t past, std::size_t count,
                     Layout& layout) {
  NIBBLE_REQUIRE(past + count <= architecture.position_limit(), InvalidArgument,
                 "transformer: sequence {} has {} tokens, but the model has learned {} positions; make it shorter "
                 "(--context, --length, --max-tokens)",
                 index, past + count, architecture.max_positions);
  for (std::size_t i = 0; i < count; ++i) layout.positions.push_back(past + i);
  layout.starts.push_back(layout.positions.size());
}

}  // namespace

Layout layout_of(const Architecture& architecture, const Batch& batch) {
  const auto& starts = batch.starts;
  NIBBLE_REQUIRE(!starts.empty() && starts.front() == 0 && starts.back() == batch.tokens.size(), InvalidArgument,
                 "transformer: batch starts must begin with 0 and end with the number of tokens, {}",
                 batch.tokens.size());
  check_tokens(architecture, batch.tokens);
  Layout layout{{0}, {}};
  layout.positions.reserve(batch.tokens.size());
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    NIBBLE_REQUIRE(starts[s] <= starts[s + 1] && starts[s + 1] <= batch.tokens.size(), InvalidArgument,
                   "transformer: batch starts must ascend, but starts[{}] = {} and starts[{}] = {}", s, starts[s],
                   s + 1, starts[s + 1]);
    append_sequence(architecture, s, 0, starts[s + 1] - starts[s], layout);
  }
  return layout;
}

Layout layout_behind(const Architecture& architecture, std::span<const TokenId> tokens, std::size_t past) {
  check_tokens(architecture, tokens);
  Layout layout{{0}, {}};
  append_sequence(architecture, 0, past, tokens.size(), layout);
  return layout;
}

}  // namespace nibble::model
