#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/arguments/cache_arguments.h"
#include "cli/arguments/compute_option.h"
#include "cli/arguments/options.h"
#include "cli/command.h"
#include "cli/show/unexpected.h"
#include "cli/terminal/human.h"
#include "cli/terminal/output.h"
#include "cli/terminal/text_stream.h"
#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/text/json.h"
#include "model/open/open_model.h"
#include "model/tokenizer/tokenizer.h"
#include "model/transformer/sampling.h"
#include "quant/store/load_model.h"

namespace nibble::cli {
namespace {

struct GenerateArguments {
  CommonOptions common;
  std::filesystem::path model;
  std::optional<std::string> prompt, prompt_ids;
  CacheArguments cache;
  std::string compute = "exact";
  model::GenerateOptions options{.max_tokens = 128};
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

std::vector<TokenId> prompt_of(const GenerateArguments& arguments, const model::Tokenizer* tokenizer,
                               std::size_t vocabulary) {
  NIBBLE_REQUIRE(arguments.prompt.has_value() != arguments.prompt_ids.has_value(), InvalidArgument,
                 "expected one of --prompt TEXT and --prompt-ids LIST, got {}", arguments.prompt ? "both" : "neither");
  if (arguments.prompt_ids) {
    std::vector<TokenId> ids = parse_ids(*arguments.prompt_ids, vocabulary);
    NIBBLE_REQUIRE(!ids.empty(), InvalidArgument, "--prompt-ids: expected at least one id");
    return ids;
  }
  NIBBLE_REQUIRE(tokenizer != nullptr, FormatError, "'{}' has no tokenizer ({}); give --prompt-ids instead",
                 arguments.model.string(), model::kTokenizerFiles);
  std::vector<TokenId> ids = tokenizer->encode_prompt(*arguments.prompt);
  NIBBLE_REQUIRE(
      !ids.empty(), InvalidArgument,
      "the prompt is empty, and this tokenizer adds no beginning-of-text token: give it a word to start from");
  return ids;
}

// When tokens came: the first one waits for the whole prompt, the others for one step each.
class Stopwatch {
 public:
  void lap() {
    last_ = Clock::now();
    if (laps_++ == 0) first_ = last_;
  }
  double first_seconds() const { return std::chrono::duration<double>(first_ - start_).count(); }
  /// Of the tokens after the first; NaN if there are none.
  double tokens_per_second() const {
    if (laps_ < 2) return std::numeric_limits<double>::quiet_NaN();
    return static_cast<double>(laps_ - 1) / std::chrono::duration<double>(last_ - first_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now(), first_ = start_, last_ = start_;
  std::size_t laps_ = 0;
};

std::string_view stop_reason(const model::Architecture& architecture, const std::vector<TokenId>& ids,
                             std::size_t wanted) {
  const auto& stops = architecture.stop_tokens;
  if (!ids.empty() && std::find(stops.begin(), stops.end(), ids.back()) != stops.end()) return "stop token";
  return ids.size() == wanted ? "length" : "context";
}

void run(const GenerateArguments& arguments, const CLI::App& app) {
  arguments.common.apply();
  if (arguments.common.json) refuse_given(app, {"--quiet"}, "--json, which tells the figures in its object");
  if (arguments.options.sampling.temperature <= 0.0)
    refuse_given(app, {"--top-k", "--top-p", "--seed"}, "a --temperature of 0, which always takes the likeliest token");
  model::GenerateOptions options = arguments.options;
  options.cache = arguments.cache.options();
  const quant::LoadedModel model = load_to_compute(arguments.model, arguments.compute);
  warn_of_unexpected(*model.checkpoint);
  const auto tokenizer = model::open_tokenizer_if_any(arguments.model);
  const std::vector<TokenId> prompt = prompt_of(arguments, tokenizer.get(), model.architecture.vocabulary);
  std::optional<TextStream> stream;
  if (tokenizer) stream.emplace(*tokenizer, prompt);

  const bool streaming = !arguments.common.json;
  std::string text;
  bool begun = false;
  const auto begin = [&] {  // only once nothing can be refused any more
    if (streaming && arguments.prompt && !std::exchange(begun, true)) print(*arguments.prompt);
  };
  const auto show = [&](const std::string& piece) {
    begin();
    text += piece;
    if (!streaming || piece.empty()) return;
    print(piece);
    flush_output();
  };
  options.cache = model::cache_for(model.architecture, prompt.size(), options);
  Stopwatch watch;
  const std::vector<TokenId> ids = model::generate(*model.transformer, prompt, options, [&](TokenId id) {
    watch.lap();
    show(stream ? stream->push(id) : fmt::format("{} ", id));
  });
  if (stream) show(stream->finish());
  const std::uint64_t cache_bytes = model::cache_bytes(model.architecture, options.cache);
  const std::string_view stop = stop_reason(model.architecture, ids, arguments.options.max_tokens);

  if (streaming) {
    begin();
    print("\n");
    flush_output();
    if (!arguments.common.quiet)
      tell(fmt::format("[{} tokens, ended by {}; first after {}, then {} tokens/s; cache {}, {}]\n", ids.size(), stop,
                       human_duration(watch.first_seconds()), human_count(watch.tokens_per_second()),
                       arguments.cache.kind, human_bytes(cache_bytes)));
    return;
  }
  const model::SamplingOptions& sampling = arguments.options.sampling;
  nlohmann::ordered_json object = {{"model", arguments.model.string()},
                                   {"method", model.method},
                                   {"bits_per_weight", model.bits_per_weight},
                                   {"prompt", nullptr},
                                   {"prompt_ids", prompt},
                                   {"ids", ids},
                                   {"text", nullptr},
                                   {"stop", stop},
                                   {"temperature", sampling.temperature},
                                   {"top_k", sampling.top_k},
                                   {"top_p", sampling.top_p},
                                   {"seed", arguments.options.seed},
                                   {"cache", cache_kind_name(options.cache.kind)},
                                   {"cache_type", cache_type_name(options.cache.type)},
                                   {"cache_bytes", cache_bytes},
                                   {"compute", arguments.compute},
                                   {"kernels", model.kernels},
                                   {"first_token_ms", watch.first_seconds() * 1e3},
                                   {"tokens_per_second", watch.tokens_per_second()},
                                   {"threads", thread_count()}};
  if (arguments.prompt) object["prompt"] = *arguments.prompt;
  if (tokenizer) object["text"] = text;
  print_json(object);
}

}  // namespace

Command generate_command(CLI::App& program) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* app = program.add_subcommand("generate", "Continue a prompt");
  add_model(*app, arguments->model);
  app->add_option("--prompt", arguments->prompt, "Text to continue; may be empty where the tokenizer adds a BOS")
      ->type_name("TEXT");
  app->add_option("--prompt-ids", arguments->prompt_ids, "Token ids to continue, between commas; nothing is added")
      ->type_name("LIST");
  add_count(*app, "-n,--tokens-to-generate", arguments->options.max_tokens, "How many tokens at most [default: 128]",
            {.low = 1, .high = 1'000'000'000});
  add_number(*app, "--temperature", arguments->options.sampling.temperature,
             "0: always the likeliest token [default: 0]", 0.0, 1e6);
  add_count(*app, "--top-k", arguments->options.sampling.top_k, "Only the N likeliest tokens; 0: all [default: 0]",
            {.low = 0});
  add_number(*app, "--top-p", arguments->options.sampling.top_p,
             "Only the likeliest tokens that together reach this probability [default: 1]", 0.0, 1.0);
  add_count(*app, "--seed", arguments->options.seed, "Of the random numbers [default: 0]", {.low = 0});
  add_cache_arguments(*app, arguments->cache);
  add_compute(*app, arguments->compute);
  add_common_options(*app, arguments->common);
  app->footer(
      "Example:\n"
      "  nibble generate datasets/demo/llama-demo --prompt \"The door opened and\" -n 40\n"
      "  nibble generate MODEL --prompt \"Once\" --temperature 0.8 --top-p 0.95 --seed 7");
  return {app, [arguments, app] { run(*arguments, *app); }};
}

}  // namespace nibble::cli
