#include "eval/quality/compare_logits.h"

#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/arguments/cache_arguments.h"
#include "cli/arguments/compute_option.h"
#include "cli/arguments/options.h"
#include "cli/arguments/token_input.h"
#include "cli/command.h"
#include "cli/show/unexpected.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "cli/terminal/table.h"
#include "core/checked_math.h"
#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "core/text/json.h"
#include "quant/store/load_model.h"

namespace nibble::cli {
namespace {

struct CompareLogitsArguments {
  CommonOptions common;
  std::filesystem::path model;
  TokenInputOptions input;
  CacheArguments cache;
  std::vector<std::string> kinds{"none", "io", "state", "window"}, types{"f32"};
  std::vector<std::size_t> chunks{1, 4, 64};
  double tolerance = 1e-4;
  std::string compute = "reference";
};

constexpr std::size_t kDefaultTokens = 256;

// One row of the table: a kind, kept as a type.
struct Compared {
  model::CacheOptions options;
  eval::ComparedCache cache;
};

std::vector<Compared> caches_of(const CompareLogitsArguments& arguments, const model::Model& model,
                                std::size_t tokens) {
  std::vector<Compared> list;
  const std::string_view window = cache_kind_name(model::CacheKind::kWindow);
  const auto windows = std::count(arguments.kinds.begin(), arguments.kinds.end(), window);
  const auto sized = [&](CacheArguments one) {  // each kind takes the sizes that it has, if another takes the others
    if (one.kind == window && windows < std::ssize(arguments.kinds)) one.capacity = 0;
    if (one.kind != window && windows > 0) one.chunk = one.context = 0;
    return one;
  };
  for (const std::string& kind : arguments.kinds) {
    for (const std::string& type : arguments.types) {
      CacheArguments one = arguments.cache;
      one.kind = kind;
      one.type = type;
      model::CacheOptions options = sized(one).options();
      if (options.kind == model::CacheKind::kNone && options.type != model::CacheType::kF32) {
        NIBBLE_REQUIRE(
            std::ranges::count(arguments.types, cache_type_name(model::CacheType::kF32)) > 0, InvalidArgument,
            "--cache none keeps nothing, so it goes with --cache-type f32 only: add f32 to --cache-type, got {}",
            fmt::join(arguments.types, ","));
        continue;
      }
      if (options.capacity == 0) options.capacity = tokens;
      // A window slides by whole chunks: it holds a text that fills no more of them than its context has positions.
      const bool slides = options.kind == model::CacheKind::kWindow &&
                          divide_up(tokens, options.chunk) * options.chunk > options.context;
      list.push_back(
          {options,
           {fmt::format("{} {}", kind, type), [&model, options] { return model::make_sequence(model, options); },
            options.type == model::CacheType::kF32 && !slides}});
    }
  }
  return list;
}

void print_table(const std::vector<eval::LogitDifferences>& results, const std::vector<Compared>& caches,
                 const model::Architecture& architecture, double tolerance) {
  Table table({{"cache", Align::kLeft}, {"bytes"}, {"tokens per call"}, {"largest difference"}, {"at position"}, {""}});
  const std::size_t per_cache = results.size() / caches.size();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const eval::LogitDifferences& result = results[i];
    const std::uint64_t bytes = model::cache_bytes(architecture, caches[i / per_cache].options);
    table.add_row({result.cache, fmt::format("{}", bytes), result.cut, fmt::format("{:.2e}", result.largest),
                   fmt::format("{}", result.worst_position),
                   !result.exact              ? "not exact"
                   : result.within(tolerance) ? "agrees"
                                              : "DIFFERS"});
  }
  print(table.text());
}

void print_object(const CompareLogitsArguments& arguments, const std::vector<eval::LogitDifferences>& results,
                  const std::vector<Compared>& caches, const quant::LoadedModel& model, std::size_t tokens) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  const std::size_t per_cache = results.size() / caches.size();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const eval::LogitDifferences& result = results[i];
    const model::CacheOptions& options = caches[i / per_cache].options;
    runs.push_back({{"cache", cache_kind_name(options.kind)},
                    {"cache_type", cache_type_name(options.type)},
                    {"cache_bytes", model::cache_bytes(model.architecture, options)},
                    {"chunk", result.cut},
                    {"exact", result.exact},
                    {"agrees", result.within(arguments.tolerance)},
                    {"largest_difference", result.largest},
                    {"position", result.worst_position},
                    {"difference_by_position", result.by_position}});
  }
  print_json({{"model", arguments.model.string()},
              {"method", model.method},
              {"compute", arguments.compute},
              {"kernels", model.kernels},
              {"tokens", tokens},
              {"tolerance", arguments.tolerance},
              {"agrees", std::all_of(results.begin(), results.end(),
                                     [&](const auto& result) { return result.within(arguments.tolerance); })},
              {"runs", runs},
              {"threads", thread_count()},
              {"gemm", gemm_identity()}});
}

void run(const CompareLogitsArguments& arguments) {
  arguments.common.apply();
  const quant::LoadedModel model = load_to_compute(arguments.model, arguments.compute);
  warn_of_unexpected(*model.checkpoint);
  TokenInputOptions input = arguments.input;
  if (input.max_tokens == 0) input.max_tokens = std::min(kDefaultTokens, model.architecture.max_positions);
  const std::vector<TokenId> tokens = read_token_input(input, arguments.model, model.architecture.vocabulary).tokens;
  NIBBLE_REQUIRE(!tokens.empty(), InvalidArgument, "expected at least one token to compare, got none");
  const std::vector<Compared> caches = caches_of(arguments, *model.transformer, tokens.size());
  std::vector<eval::ComparedCache> compared;
  for (const Compared& one : caches) compared.push_back(one.cache);

  ProgressBar bar = ProgressBar::for_process(arguments.common.quiet);
  const auto results = eval::compare_logits(*model.transformer, tokens, compared,
                                            eval::cuts_of(arguments.chunks, tokens.size()), {}, bar.sink());
  bar.finish();
  if (arguments.common.json) {
    print_object(arguments, results, caches, model, tokens.size());
  } else {
    print_table(results, caches, model.architecture, arguments.tolerance);
  }
  const auto differing = std::count_if(results.begin(), results.end(),
                                       [&](const auto& result) { return !result.within(arguments.tolerance); });
  const bool rounds = arguments.compute == "bf16" || arguments.compute == "int8";
  NIBBLE_REQUIRE(differing == 0, NumericalError, "{} of {} runs differ from one prompt by more than {}{}", differing,
                 results.size(), arguments.tolerance,
                 rounds
                     ? fmt::format("; --compute {} rounds activations, and so magnifies the least difference between "
                                   "calls: judge caches by exact, or give a --tolerance",
                                   arguments.compute)
                     : "");
}

}  // namespace

Command compare_logits_command(CLI::App& program) {
  auto arguments = std::make_shared<CompareLogitsArguments>();
  CLI::App* app = program.add_subcommand("compare-logits",
                                         "Check that caches and calls of any length give the logits of one prompt");
  add_model(*app, arguments->model);
  add_token_input(*app, arguments->input);
  app->add_option("--cache", arguments->kinds, "Kinds of cache, between commas [default: none,io,state,window]")
      ->delimiter(',')
      ->type_name("LIST");
  app->add_option("--cache-type", arguments->types, "What they keep: f32, f16, int8, between commas [default: f32]")
      ->delimiter(',')
      ->type_name("LIST");
  add_cache_size(*app, arguments->cache);
  add_window_sizes(*app, arguments->cache);
  add_count_list(*app, "--chunk", arguments->chunks, "Tokens per call, between commas [default: 1,4,64]");
  add_number(*app, "--tolerance", arguments->tolerance, "How far exact logits may be apart [default: 1e-4]", 0.0, 1e6);
  add_compute(*app, arguments->compute);
  add_common_options(*app, arguments->common);
  app->footer(
      "The first 256 tokens are used unless --max-tokens says otherwise. f16, int8 and windows that slide are "
      "measured,\n"
      "not judged; when another differs by more than the tolerance, the exit code is 4.\n"
      "Example:\n"
      "  nibble compare-logits datasets/demo/llama-demo --text datasets/demo/eval.txt --chunk 1,4,64\n"
      "  nibble compare-logits MODEL --text FILE --cache state,window --cache-type f32,f16,int8");
  return {app, [arguments] { run(*arguments); }};
}

}  // namespace nibble::cli
