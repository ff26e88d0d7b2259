#include "cli/arguments/token_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "cli/arguments/options.h"
#include "core/error.h"
#include "core/files/hash.h"
#include "datasets/text_source.h"
#include "datasets/token_file.h"
#include "model/open/open_model.h"
#include "model/tokenizer/agreement.h"

namespace nibble::cli {

void add_token_input(CLI::App& app, TokenInputOptions& options) {
  add_path(app, "--text", options.text, "FILE", "Text to evaluate on, UTF-8");
  add_path(app, "--tokens", options.tokens, "FILE", "Token ids instead of text: little-endian .u16 or .u32");
  app.add_flag("--hf-join", options.hf_join,
               "Join the file's rows by blank lines, as the usual WikiText evaluation does");
  add_count(app, "--max-tokens", options.max_tokens, "Only the first N tokens");
}

TokenInput read_token_input(const TokenInputOptions& options, const std::filesystem::path& directory,
                            std::size_t vocabulary) {
  NIBBLE_REQUIRE(options.text.empty() != options.tokens.empty(), InvalidArgument,
                 "expected one of --text FILE and --tokens FILE, got {}", options.text.empty() ? "neither" : "both");
  NIBBLE_REQUIRE(!options.hf_join || !options.text.empty(), InvalidArgument,
                 "--hf-join joins rows of text; it has no meaning with --tokens");
  const std::size_t limit = options.max_tokens > 0 ? options.max_tokens : std::numeric_limits<std::size_t>::max();
  TokenInput input;
  if (options.text.empty()) {
    input.tokenizer = model::open_tokenizer_if_any(directory);
    input.tokens = datasets::read_token_file(options.tokens, vocabulary, limit);
  } else {
    input.tokenizer = model::open_tokenizer(directory);
    const std::string text = datasets::read_evaluation_text(options.text, options.hf_join);
    input.text_hash = hash_hex(std::as_bytes(std::span(text)));
    input.tokens = input.tokenizer->encode(text);
    input.tokens.resize(std::min(limit, input.tokens.size()));
  }
  input.tokens_hash = hash_hex(std::as_bytes(std::span(input.tokens)));
  return input;
}

void require_agreement(const TokenInput& input, const std::filesystem::path& reference) {
  if (!input.tokenizer) return;
  model::require_agreement(input.tokens, *input.tokenizer, model::open_tokenizer_if_any(reference).get(),
                           fmt::format("--reference '{}'", reference.string()));
}

}  // namespace nibble::cli
