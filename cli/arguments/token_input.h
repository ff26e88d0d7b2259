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
  std::vector<std::string> text, tokens;  ///< files: one, but for commands of several texts
  bool hf_join = false;
  std::uint64_t max_tokens = 0;  ///< of each; 0: all
  std::string use;               ///< what they are for (eval/quality/text_use.h); empty: not said
  bool bos = false;              ///< windows begin with the tokenizer's BOS
};
void add_token_input(CLI::App& app, TokenInputOptions& options);
/// The same with --text and --tokens that can be given several times, --use and --bos.
void add_text_input(CLI::App& app, TokenInputOptions& options);

/// A file of those that tokens come from.
struct TextFile {
  std::string path;
  std::optional<std::string> text_hash;  ///< of the text as it was tokenized, the whole of it; empty for --tokens
};

struct TokenInput {
  std::vector<TokenId> tokens;                        ///< of all files, one behind the other
  std::vector<TextFile> files;                        ///< at least one
  std::vector<std::size_t> text_ends;                 ///< of several files: where each ends in `tokens`; empty for one
  std::string tokens_hash;                            ///< of the ids as little-endian u32, after --max-tokens
  std::shared_ptr<const model::Tokenizer> tokenizer;  ///< of the model's directory; null where there is none
};

/// The tokenizer of the model that --text is read for. Throws FormatError where it has none.
std::shared_ptr<const model::Tokenizer> open_text_tokenizer(const std::filesystem::path& model);

/// Reads the tokens for a model of `vocabulary` ids in `directory`. Throws InvalidArgument (neither or both of --text
/// and --tokens, an unknown --use), FormatError.
TokenInput read_token_input(const TokenInputOptions& options, const std::filesystem::path& directory,
                            std::size_t vocabulary);

/// Throws InvalidArgument where the model at `reference`, of --reference, means another text by the tokens: it reads
/// those of the model evaluated. Where nothing is known of the text of either, nothing is checked.
void require_agreement(const TokenInput& input, const std::filesystem::path& reference);

}  // namespace nibble::cli
