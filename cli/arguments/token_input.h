#pragma once

#include <CLI/App.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/tokenizer/tokenizer.h"

namespace nibble::cli {

/// Where an evaluating command takes its tokens from: --text or --tokens, --hf-join, --max-tokens.
struct TokenInputOptions {
  std::filesystem::path text, tokens;
  bool hf_join = false;
  std::uint64_t max_tokens = 0;  ///< 0: all
};
void add_token_input(CLI::App& app, TokenInputOptions& options);

struct TokenInput {
  std::vector<TokenId> tokens;
  std::string tokens_hash;               ///< of the ids as little-endian u32, after --max-tokens
  std::optional<std::string> text_hash;  ///< of the text as it was tokenized, the whole of it; empty for --tokens
  std::shared_ptr<const model::Tokenizer> tokenizer;  ///< of the model's directory; null where there is none
};

/// Reads the tokens for a model of `vocabulary` ids in `directory`. Throws InvalidArgument (neither or both of --text
/// and --tokens), FormatError.
TokenInput read_token_input(const TokenInputOptions& options, const std::filesystem::path& directory,
                            std::size_t vocabulary);

/// Throws InvalidArgument where the model at `reference`, of --reference, means another text by the tokens: it reads
/// those of the model evaluated. Where nothing is known of the text of either, nothing is checked.
void require_agreement(const TokenInput& input, const std::filesystem::path& reference);

}  // namespace nibble::cli
