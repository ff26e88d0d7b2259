#include <fmt/format.h>

#include <CLI/App.hpp>
#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments/attention_names.h"
#include "cli/arguments/cache_arguments.h"
#include "cli/arguments/compute_option.h"
#include "cli/arguments/options.h"
#include "cli/command.h"
#include "cli/show/model_fact.h"
#include "cli/show/speed_figures.h"
#include "cli/show/unexpected.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "cli/terminal/table.h"
#include "core/error.h"
#include "core/text/choice.h"
#include "core/text/json.h"
#include "quant/store/load_model.h"

namespace nibble::cli {
namespace {

constexpr eval::SpeedSizeNames kSizeNames{.context = "--context",
                                          .prompt = "--prompt",
                                          .generate = "--generate",
                                          .window_context = "--window-context",
                                          .window_chunk = "--window-chunk"};

struct SpeedArguments {
  CommonOptions common;
  std::filesystem::path model;
  CacheArguments cache;
  std::string attention = "fused", compute = "exact";
  std::uint64_t prompt = 512, generate = 128, warm_up = 1, repeat = 5, seed = 0;
  std::vector<std::string> contexts;
  bool csv = false, skip_limits = false;
  const CLI::Option *prompt_option = nullptr, *generate_option = nullptr;
};

std::size_t parse_context(std::string_view word) {
  std::uint64_t value = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
  NIBBLE_REQUIRE(status == std::errc() && end == word.data() + word.size() && value >= 4 && value <= (1u << 26),
                 InvalidArgument, "--context: expected sizes from 4 to {} between commas, got '{}'", 1u << 26, word);
  return value;
}

std::vector<SpeedRow> rows_of(const SpeedArguments& arguments) {
  eval::SpeedOptions options;
  options.warm_up = arguments.warm_up;
  options.repeat = arguments.repeat;
  options.cache = arguments.cache.options();
  options.seed = arguments.seed;
  options.forward.attention = choose("--attention", arguments.attention, kAttentions);
  options.generate = arguments.generate;
  const bool given = arguments.prompt_option->count() > 0;
  std::vector<std::size_t> contexts;
  for (const std::string& word : arguments.contexts) contexts.push_back(parse_context(word));
  NIBBLE_REQUIRE(contexts.empty() || arguments.cache.context == 0, InvalidArgument,
                 "--context sets the positions of a window too: give it or --window-context");
  std::vector<SpeedRow> rows;
  for (const eval::SpeedOptions& row :
       eval::at_contexts(options, contexts, given ? std::optional<std::size_t>(arguments.prompt) : std::nullopt))
    rows.push_back({row, {}});
  return rows;
}

// Of models that have learned fewer positions than the defaults ask for. What was asked for is not cut.
void cut_defaults(const SpeedArguments& arguments, const model::Architecture& architecture,
                  std::vector<SpeedRow>& rows) {
  const bool asked =
      !arguments.contexts.empty() || arguments.prompt_option->count() > 0 || arguments.generate_option->count() > 0;
  if (asked || arguments.prompt + arguments.generate < architecture.position_limit()) return;
  const eval::Fit fit = eval::fit_context(architecture.position_limit(), arguments.prompt, arguments.generate);
  rows.front().options.prompt = fit.prompt;
  rows.front().options.generate = fit.generate;
}

void warn_of_cuts(const SpeedArguments& arguments, const std::vector<SpeedRow>& rows) {
  const bool fills = !arguments.contexts.empty() && arguments.prompt_option->count() == 0;
  for (const SpeedRow& row : rows)
    warn_of_cut(row.options, fills ? row.options.prompt : arguments.prompt, arguments.generate);
}

void run(const SpeedArguments& arguments) {
  arguments.common.apply();
  NIBBLE_REQUIRE(!arguments.csv || !arguments.common.json, InvalidArgument, "--csv and --json: give one of them");
  SpeedReport report;
  report.rows = rows_of(arguments);
  report.bf16 = arguments.compute == "bf16";
  const auto start = std::chrono::steady_clock::now();
  const quant::LoadedModel model = load_to_compute(arguments.model, arguments.compute);
  const double open_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  warn_of_unexpected(*model.checkpoint);
  cut_defaults(arguments, model.architecture, report.rows);
  for (const SpeedRow& row : report.rows) eval::require_room(row.options, model.architecture, kSizeNames);
  warn_of_cuts(arguments, report.rows);  // of what is measured, once nothing is refused
  ProgressBar bar = ProgressBar::for_process(arguments.common.quiet);
  measure_speed_report(model, arguments.skip_limits, bar.sink(), report);
  bar.finish();
  if (arguments.csv) {
    print(speed_csv(arguments.model.string(), report));
  } else if (arguments.common.json) {
    nlohmann::ordered_json object = {
        {"model", arguments.model.string()}, {"method", model.method},       {"bits_per_weight", model.bits_per_weight},
        {"attention", arguments.attention},  {"compute", arguments.compute}, {"kernels", model.kernels},
        {"open_seconds", open_seconds}};
    object.update(speed_json(report));
    print_json(object);
  } else {
    std::vector<std::pair<std::string, std::string>> facts = {
        {"model", model_fact(arguments.model, model)},
        {"cache", fmt::format("{}, {}; attention {}", cache_kind_name(report.rows[0].options.cache.kind),
                              cache_type_name(report.rows[0].options.cache.type), arguments.attention)},
        {"kernels", kernels_fact(arguments.compute, model)},
        {"opened", fmt::format("in {:.2f} s", open_seconds)}};
    for (auto& fact : speed_facts(report)) facts.push_back(std::move(fact));
    print(aligned_facts(facts) + "\n" + speed_table(report));
  }
}

}  // namespace

Command speed_command(CLI::App& program) {
  auto arguments = std::make_shared<SpeedArguments>();
  CLI::App* app =
      program.add_subcommand("speed", "Time to the first token, tokens per second, and how near that is to the limits");
  add_model(*app, arguments->model);
  arguments->prompt_option =
      add_count(*app, "--prompt", arguments->prompt, "Tokens of the prompt [default: 512, or what a --context leaves]");
  arguments->generate_option =
      add_count(*app, "--generate", arguments->generate, "Tokens generated after the first [default: 128]");
  app->add_option("--context", arguments->contexts, "Cache sizes to measure at [default: just what is needed]")
      ->delimiter(',')
      ->type_name("N,N,…");
  add_cache_kind(*app, arguments->cache);  // how large it is, a context says
  add_window_sizes(*app, arguments->cache);
  app->add_option("--attention", arguments->attention, "fused, or decomposed: with all scores in memory")
      ->type_name("NAME")
      ->capture_default_str();
  add_compute(*app, arguments->compute);
  add_count(*app, "--repeat", arguments->repeat, "Runs that count [default: 5]");
  add_count(*app, "--warm-up", arguments->warm_up, "Runs before them that do not [default: 1]", {.low = 0});
  add_count(*app, "--seed", arguments->seed, "Of the prompt's random tokens [default: 0]", {.low = 0});
  app->add_flag("--skip-limits", arguments->skip_limits, "Do not measure the machine's read bandwidth and GEMM rate");
  app->add_flag("--csv", arguments->csv, "Print a line of comma-separated figures per context");
  add_common_options(*app, arguments->common);
  app->footer(
      "Example:\n"
      "  nibble speed build/gpt2-demo-int4 --prompt 128 --generate 64\n"
      "  nibble speed MODEL --context 128,512,2048 --cache none --generate 3 --json");
  return {app, [arguments] { run(*arguments); }};
}

}  // namespace nibble::cli
