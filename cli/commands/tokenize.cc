#include <fmt/format.h>

#include <CLI/App.hpp>
#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/arguments/options.h"
#include "cli/arguments/output_path.h"
#include "cli/command.h"
#include "cli/terminal/human.h"
#include "cli/terminal/output.h"
#include "core/error.h"
#include "core/files/hash.h"
#include "core/files/output_file.h"
#include "core/text/json.h"
#include "datasets/text_source.h"
#include "model/open/open_model.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::cli {
namespace {

struct TokenizeArguments {
  std::filesystem::path directory, text, output;
  bool hf_join = false, ids = false, json = false;
};

// Bytes of an id, by the file's extension.
std::size_t id_bytes(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  NIBBLE_REQUIRE(extension == ".u16" || extension == ".u32", InvalidArgument,
                 "--output: expected a name ending in .u16 or .u32, got '{}'", path.string());
  return extension == ".u16" ? 2 : 4;
}

void prepare_output(const std::filesystem::path& path) {
  if (path.empty()) return;
  id_bytes(path);
  create_parents(path);
}

// Little-endian ids.
void write_token_file(const std::filesystem::path& path, std::span<const TokenId> tokens) {
  const std::size_t width = id_bytes(path);
  std::vector<std::byte> bytes;
  bytes.reserve(tokens.size() * width);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    NIBBLE_REQUIRE(width == 4 || tokens[i] <= 0xFFFF, InvalidArgument,
                   "--output: token {} has id {}, which .u16 cannot hold; use .u32", i, tokens[i]);
    for (std::size_t b = 0; b < width; ++b) bytes.push_back(static_cast<std::byte>(tokens[i] >> (8 * b)));
  }
  write_file(path, bytes);
}

void run(const TokenizeArguments& arguments) {
  const auto tokenizer = model::open_tokenizer(arguments.directory);
  prepare_output(arguments.output);
  const std::string text = datasets::read_evaluation_text(arguments.text, arguments.hf_join);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<TokenId> tokens = tokenizer->encode(text);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double megabytes_per_second = static_cast<double>(text.size()) / 1e6 / seconds;
  if (!arguments.output.empty()) write_token_file(arguments.output, tokens);

  if (arguments.json) {
    nlohmann::ordered_json object = {{"tokens", tokens.size()},
                                     {"bytes", text.size()},
                                     {"seconds", seconds},
                                     {"megabytes_per_second", megabytes_per_second},
                                     {"vocabulary", tokenizer->vocabulary_size()},
                                     {"tokenizer_hash", tokenizer->fingerprint()},
                                     {"text_hash", hash_hex(std::as_bytes(std::span(text)))}};
    if (arguments.ids) object["ids"] = tokens;
    print_json(object);
  } else if (arguments.ids) {
    print(fmt::format("{}\n", fmt::join(tokens, " ")));
  } else {
    print(fmt::format("{} tokens from {} ({:.2f} bytes per token), {:.1f} MB/s\n", with_separators(tokens.size()),
                      human_bytes(text.size()), static_cast<double>(text.size()) / static_cast<double>(tokens.size()),
                      megabytes_per_second));
  }
}

}  // namespace

Command tokenize_command(CLI::App& program) {
  auto arguments = std::make_shared<TokenizeArguments>();
  CLI::App* app = program.add_subcommand("tokenize", "Count or write the tokens of a text");
  add_path(*app, "DIR", arguments->directory, "",
           fmt::format("Directory with {}; or a .gguf file, with or without a model", model::kTokenizerFiles))
      ->required();
  add_path(*app, "--text", arguments->text, "FILE", "The text, UTF-8")->required();
  app->add_flag("--hf-join", arguments->hf_join,
                "Join the file's rows by blank lines, as the usual WikiText evaluation does");
  app->add_flag("--ids", arguments->ids, "Print the ids as well (with --json), or instead of the count");
  add_path(*app, "-o,--output", arguments->output, "FILE", "Also write the ids: little-endian .u16 or .u32");
  add_json_flag(*app, arguments->json);
  app->footer("Example:\n  nibble tokenize datasets/demo/gpt2-demo --text datasets/demo/eval.txt -o build/eval.u16");
  return {app, [arguments] { run(*arguments); }};
}

}  // namespace nibble::cli
