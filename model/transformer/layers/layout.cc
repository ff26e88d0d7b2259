#include "model/transformer/layers/layout.h"

#include "core/error.h"

namespace nibble::model {
void check_tokens(const Config& config, std::span<const TokenId> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    NIBBLE_REQUIRE(tokens[i] < config.vocabulary, InvalidArgument,
                   "transformer: token [{}] is {}, but the vocabulary has {} ids; was the text made with another "
                   "tokenizer?",
                   i, tokens[i], config.vocabulary);
}

namespace {

void append_sequence(const Config& config, std::size_t index, std::size_t past, std::size_t count, Layout& layout) {
  NIBBLE_REQUIRE(config.family != Family::kGpt2 || past + count <= config.max_positions, InvalidArgument,
                 "transformer: sequence {} has {} tokens, but the model has learned {} positions", index, past + count,
                 config.max_positions);
  for (std::size_t i = 0; i < count; ++i) layout.positions.push_back(past + i);
  layout.starts.push_back(layout.positions.size());
}

}  // namespace

Layout layout_of(const Config& config, const Batch& batch) {
  const auto& starts = batch.starts;
  NIBBLE_REQUIRE(!starts.empty() && starts.front() == 0 && starts.back() == batch.tokens.size(), InvalidArgument,
                 "transformer: batch starts must begin with 0 and end with the number of tokens, {}",
                 batch.tokens.size());
  check_tokens(config, batch.tokens);
  Layout layout{{0}, {}};
  layout.positions.reserve(batch.tokens.size());
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    NIBBLE_REQUIRE(starts[s] <= starts[s + 1] && starts[s + 1] <= batch.tokens.size(), InvalidArgument,
                   "transformer: batch starts must ascend, but starts[{}] = {} and starts[{}] = {}", s, starts[s],
                   s + 1, starts[s + 1]);
    append_sequence(config, s, 0, starts[s + 1] - starts[s], layout);
  }
  return layout;
}

Layout layout_behind(const Config& config, std::span<const TokenId> tokens, std::size_t past) {
  check_tokens(config, tokens);
  Layout layout{{0}, {}};
  append_sequence(config, 0, past, tokens.size(), layout);
  return layout;
}

}  // namespace nibble::model
