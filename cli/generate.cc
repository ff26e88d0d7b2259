#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/human.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/sampler.h"
#include "cli/text_stream.h"
#include "cli/token_input.h"
#include "core/error.h"
#include "core/thread_pool.h"
#include "model/transformer/kv_cache.h"
#include "quant/pipeline/load_model.h"

namespace nibble::cli {
namespace {

using model::TokenId;

struct Arguments {
  CommonOptions common;
  std::filesystem::path model;
  std::optional<std::string> prompt, prompt_ids;
  std::uint64_t tokens = 128;
  bool ignore_eos = false;
  SamplingOptions sampling;
};

// Ids between commas or blanks.
std::vector<TokenId> parse_ids(std::string_view text, std::size_t vocabulary) {
  std::vector<TokenId> ids;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(", \n\t"), text.size()));
    if (text.empty()) return ids;
    const std::string_view word = text.substr(0, text.find_first_of(", \n\t"));
    TokenId id = 0;
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), id);
    NIBBLE_REQUIRE(status == std::errc() && end == word.data() + word.size() && id < vocabulary, InvalidArgument,
                   "--prompt-ids: expected token ids below {}, got '{}'", vocabulary, word);
    ids.push_back(id);
    text.remove_prefix(word.size());
  }
}

std::vector<TokenId> prompt_of(const Arguments& arguments, const model::Tokenizer* tokenizer, std::size_t vocabulary) {
  NIBBLE_REQUIRE(arguments.prompt.has_value() != arguments.prompt_ids.has_value(), InvalidArgument,
                 "expected one of --prompt TEXT and --prompt-ids LIST, got {}", arguments.prompt ? "both" : "neither");
  if (arguments.prompt_ids) {
    std::vector<TokenId> ids = parse_ids(*arguments.prompt_ids, vocabulary);
    NIBBLE_REQUIRE(!ids.empty(), InvalidArgument, "--prompt-ids: expected at least one id");
    return ids;
  }
  NIBBLE_REQUIRE(tokenizer != nullptr, FormatError,
                 "'{}' has no tokenizer (tokenizer.json, or vocab.json and merges.txt); give --prompt-ids instead",
                 arguments.model.string());
  std::vector<TokenId> ids = tokenizer->encode(*arguments.prompt);
  if (const auto bos = tokenizer->added_bos()) ids.insert(ids.begin(), *bos);
  NIBBLE_REQUIRE(
      !ids.empty(), InvalidArgument,
      "the prompt is empty, and this tokenizer adds no beginning-of-text token: give it a word to start from");
  return ids;
}

enum class Stop { kLength, kEos, kContext };

struct Generation {
  std::vector<TokenId> ids;
  Stop stop = Stop::kLength;
  double prompt_seconds = 0.0;  // until the first token is known
  double extend_seconds = 0.0;  // for the tokens after it
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Generation generate(const model::Model& transformer, const std::vector<TokenId>& prompt, std::size_t count,
                    std::optional<TokenId> eos, Sampler sampler, const std::function<void(TokenId)>& on_token) {
  const model::Config& config = transformer.config();
  NIBBLE_REQUIRE(prompt.size() <= config.max_positions, InvalidArgument,
                 "the prompt has {} tokens; this model's context is {}", prompt.size(), config.max_positions);
  // The last token is never run through the network: it needs no place in the cache.
  const std::size_t capacity = std::min<std::size_t>(config.max_positions, prompt.size() + count - 1);
  model::KvCache<float> cache(config, capacity);
  Generation generation;
  TokenId next = 0;
  const auto step = [&](std::span<const TokenId> tokens) {
    transformer.extend(tokens, cache, 1, [&](std::span<const std::size_t>, MatrixView<const float> logits) {
      next = sampler.pick(logits.row(0));
    });
  };
  auto start = std::chrono::steady_clock::now();
  step(prompt);
  generation.prompt_seconds = seconds_since(start);
  start = std::chrono::steady_clock::now();
  while (true) {
    if (eos && next == *eos) {
      generation.stop = Stop::kEos;
      break;
    }
    generation.ids.push_back(next);
    on_token(next);
    if (generation.ids.size() == count) break;
    if (cache.length() == cache.capacity()) {
      generation.stop = Stop::kContext;
      break;
    }
    step({&next, 1});
  }
  generation.extend_seconds = seconds_since(start);
  return generation;
}

void run(const Arguments& arguments) {
  arguments.common.apply();
  const quant::LoadedModel model = quant::load_model(arguments.model);
  const auto tokenizer = open_tokenizer_if_any(arguments.model);
  const std::vector<TokenId> prompt = prompt_of(arguments, tokenizer.get(), model.config.vocabulary);
  std::optional<TokenId> eos;
  if (!arguments.ignore_eos) eos = tokenizer && tokenizer->eos() ? tokenizer->eos() : model.config.eos;

  const bool streaming = !arguments.common.json;
  std::optional<TextStream> stream;
  if (tokenizer) stream.emplace(*tokenizer, prompt);
  std::string text;
  const auto show = [&](const std::string& piece) {
    text += piece;
    if (!streaming || piece.empty()) return;
    print(piece);
    flush_output();
  };
  if (streaming && arguments.prompt) print(*arguments.prompt);
  const Generation generation =
      generate(*model.transformer, prompt, arguments.tokens, eos, Sampler(arguments.sampling),
               [&](TokenId id) { stream ? show(stream->push(id)) : show(fmt::format("{} ", id)); });
  if (stream) show(stream->finish());

  constexpr const char* kStops[] = {"length", "eos", "context"};
  const char* stop = kStops[static_cast<std::size_t>(generation.stop)];
  const double tokens_per_second = generation.ids.size() > 1
                                       ? static_cast<double>(generation.ids.size() - 1) / generation.extend_seconds
                                       : std::numeric_limits<double>::quiet_NaN();
  if (!streaming) {
    nlohmann::ordered_json object = {{"model", arguments.model.string()},
                                     {"method", model.method},
                                     {"bits_per_weight", model.bits_per_weight},
                                     {"prompt", nullptr},
                                     {"prompt_ids", prompt},
                                     {"ids", generation.ids},
                                     {"text", nullptr},
                                     {"stop", stop},
                                     {"temperature", arguments.sampling.temperature},
                                     {"top_k", arguments.sampling.top_k},
                                     {"top_p", arguments.sampling.top_p},
                                     {"seed", arguments.sampling.seed},
                                     {"first_token_ms", generation.prompt_seconds * 1e3},
                                     {"tokens_per_second", tokens_per_second},
                                     {"threads", thread_count()}};
    if (arguments.prompt) object["prompt"] = *arguments.prompt;
    if (tokenizer) object["text"] = text;
    print_json(object);
    return;
  }
  print("\n");
  flush_output();
  if (!arguments.common.quiet)
    fmt::print(stderr, "[{} tokens, stopped by {}; first after {}, then {} tokens/s]\n", generation.ids.size(), stop,
               human_duration(generation.prompt_seconds), human_count(tokens_per_second));
}

}  // namespace

Command generate_command(CLI::App& program) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* app = program.add_subcommand("generate", "Continue a prompt");
  add_model(*app, arguments->model);
  app->add_option("--prompt", arguments->prompt, "Text to continue; may be empty where the tokenizer adds a BOS")
      ->type_name("TEXT");
  app->add_option("--prompt-ids", arguments->prompt_ids, "Token ids to continue, between commas; nothing is added")
      ->type_name("LIST");
  add_count(*app, "-n,--tokens-to-generate", arguments->tokens, "How many tokens at most [default: 128]",
            {.low = 1, .high = 1'000'000'000});
  add_number(*app, "--temperature", arguments->sampling.temperature, "0: always the likeliest token [default: 0]", 0.0,
             1e6);
  add_count(*app, "--top-k", arguments->sampling.top_k, "Only the N likeliest tokens; 0: all [default: 0]", {.low = 0});
  add_number(*app, "--top-p", arguments->sampling.top_p,
             "Only the likeliest tokens that together reach this probability [default: 1]", 0.0, 1.0);
  add_count(*app, "--seed", arguments->sampling.seed, "Of the random numbers [default: 0]", {.low = 0});
  app->add_flag("--ignore-eos", arguments->ignore_eos, "Go on after an end-of-text token");
  add_common_options(*app, arguments->common);
  app->footer(
      "Example:\n"
      "  nibble generate datasets/demo/llama-demo --prompt \"The door opened and\" -n 40\n"
      "  nibble generate MODEL --prompt \"Once\" --temperature 0.8 --top-p 0.95 --seed 7");
  return {app, [arguments] { run(*arguments); }};
}

}  // namespace nibble::cli
