#include "cli/arguments/token_input.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "cli/arguments/options.h"
#include "core/error.h"
#include "core/files/file_identity.h"
#include "core/files/hash.h"
#include "datasets/text_source.h"
#include "datasets/token_file.h"
#include "eval/quality/text_use.h"
#include "model/open/open_model.h"
#include "model/tokenizer/agreement.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::cli {

namespace {

void add_files(CLI::App& app, TokenInputOptions& options, bool several) {
  const auto add = [&](const char* name, std::vector<std::string>& files, const std::string& description) {
    check_path(app.add_option(name, files,
                              description + (several ? "; again for more texts: figures of each and of all" : "")))
        ->type_name("FILE")
        ->expected(1)
        ->multi_option_policy(several ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::Throw);
  };
  add("--text", options.text, "Text to evaluate on, UTF-8");
  add("--tokens", options.tokens, "Token ids instead of text: little-endian .u16 or .u32");
  app.add_flag("--hf-join", options.hf_join,
               "Join the file's rows by blank lines, as the usual WikiText evaluation does");
  add_count(app, "--max-tokens", options.max_tokens,
            several ? "Only the first N tokens of each" : "Only the first N tokens");
}

}  // namespace

void add_token_input(CLI::App& app, TokenInputOptions& options) { add_files(app, options, false); }

void add_text_input(CLI::App& app, TokenInputOptions& options) {
  add_files(app, options, true);
  app.add_option("--use", options.use,
                 fmt::format("What these texts are for, stands in the output: {}", fmt::join(eval::kTextUses, ", ")))
      ->type_name("NAME");
  app.add_flag("--bos", options.bos,
               "Windows begin with the tokenizer's BOS, in place of their own first token (protocol half: unasked)");
}

std::shared_ptr<const model::Tokenizer> open_text_tokenizer(const std::filesystem::path& model) {
  auto tokenizer = model::open_tokenizer_if_any(model);
  NIBBLE_REQUIRE(tokenizer != nullptr, FormatError,
                 "'{}' has no tokenizer ({}); give token ids by --tokens FILE in place of --text", model.string(),
                 model::kTokenizerFiles);
  return tokenizer;
}

TokenInput read_token_input(const TokenInputOptions& options, const std::filesystem::path& directory,
                            std::size_t vocabulary) {
  NIBBLE_REQUIRE(options.text.empty() != options.tokens.empty(), InvalidArgument,
                 "expected one of --text FILE and --tokens FILE, got {}", options.text.empty() ? "neither" : "both");
  NIBBLE_REQUIRE(!options.hf_join || !options.text.empty(), InvalidArgument,
                 "--hf-join joins rows of text; it has no meaning with --tokens");
  eval::checked_text_use("--use", options.use);
  refuse_repeated_files(options.text.empty() ? options.tokens : options.text);
  const std::size_t limit = options.max_tokens > 0 ? options.max_tokens : std::numeric_limits<std::size_t>::max();
  TokenInput input;
  input.tokenizer = options.text.empty() ? model::open_tokenizer_if_any(directory) : open_text_tokenizer(directory);
  const auto append = [&](TextFile file, std::span<const TokenId> ids) {
    ids = ids.first(std::min(limit, ids.size()));
    input.tokens.insert(input.tokens.end(), ids.begin(), ids.end());
    input.text_ends.push_back(input.tokens.size());
    input.files.push_back(std::move(file));
  };
  for (const std::string& file : options.tokens) append({file, {}}, datasets::read_token_file(file, vocabulary, limit));
  for (const std::string& file : options.text) {
    const std::string text = datasets::read_evaluation_text(file, options.hf_join);
    append({file, hash_hex(std::as_bytes(std::span(text)))}, input.tokenizer->encode(text));
  }
  if (input.files.size() == 1) input.text_ends.clear();
  input.tokens_hash = hash_hex(std::as_bytes(std::span(input.tokens)));
  return input;
}

void require_agreement(const TokenInput& input, const std::filesystem::path& reference) {
  if (!input.tokenizer) return;
  model::require_agreement(input.tokens, *input.tokenizer, model::open_tokenizer_if_any(reference).get(),
                           fmt::format("--reference '{}'", reference.string()));
}

}  // namespace nibble::cli
