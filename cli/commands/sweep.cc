#include "cli/show/sweep.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments/memory_size.h"
#include "cli/arguments/options.h"
#include "cli/command.h"
#include "cli/commands/sweep_watch.h"
#include "cli/mpi_session.h"
#include "cli/terminal/output.h"
#include "cli/version.h"
#include "core/error.h"
#include "core/text/json.h"
#include "eval/sweep/diff.h"
#include "eval/sweep/environment.h"
#include "eval/sweep/repetition.h"
#include "eval/sweep/results_directory.h"
#include "eval/sweep/run_sweep.h"
#include "eval/sweep/sweep_cost.h"
#include "eval/sweep/sweep_file.h"
#include "eval/sweep/sweep_plan.h"
#if NIBBLE_HAVE_MPI
#include "eval/sweep/mpi_hand_out.h"
#endif

namespace nibble::cli {
namespace {

struct SweepArguments {
  CommonOptions common;
  std::filesystem::path sweep, output, cache, repeat, watch;
  std::string memory = "4G", cache_size = "20G", shard = "1/1";
  bool dry_run = false, retry_failed = false;
};

// 0 for anything but digits.
std::size_t count_of(std::string_view digits) {
  std::size_t count = 0;
  const char* const end = digits.data() + digits.size();
  const auto [rest, status] = std::from_chars(digits.data(), end, count);
  return status == std::errc() && rest == end ? count : 0;
}

eval::Shard parse_shard(std::string_view text) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const eval::Shard shard{.index = count_of(text.substr(0, slash)),
                          .count = count_of(text.substr(std::min(slash + 1, text.size())))};
  NIBBLE_REQUIRE(shard.index >= 1 && shard.index <= shard.count, InvalidArgument,
                 "--shard: expected i/n with 1 <= i <= n, such as 2/8, got '{}'", text);
  return shard;
}

eval::SweepOptions options_of(const SweepArguments& arguments) {
  eval::SweepOptions options;
  options.output = arguments.output;
  options.cache = arguments.cache;
  options.cache_bytes = parse_memory_size("--cache-size", arguments.cache_size);
  options.memory_bytes = parse_memory_size("--memory", arguments.memory);
  options.retry_failed = arguments.retry_failed;
  options.shard = parse_shard(arguments.shard);
  options.environment = eval::run_environment(build_facts());
  return options;
}

// Runs them with a display, which is gone before an error is told.
eval::SweepSummary run_shown(const eval::SweepPlan& plan, eval::SweepOptions options, bool quiet, bool with_bar) {
  SweepDisplay display(quiet, with_bar);
  options.progress = [&](const eval::SweepProgress& progress) { display.update(progress); };
  options.finished = [&](const eval::SweepRecord& record) { display.finished(record); };
  return eval::run_sweep(plan, options);
}

// What every process of an mpirun does; the first one also tells what came out.
void run_cells(const SweepArguments& arguments, const eval::SweepPlan& plan) {
  eval::SweepOptions options = options_of(arguments);
  MpiSession mpi;
  const bool first = mpi.team().rank() == 0, alone = mpi.team().size() == 1;
#if NIBBLE_HAVE_MPI
  if (!alone) options.hand_out = [](std::size_t jobs) { return std::make_unique<eval::MpiHandOut>(jobs); };
#endif
  eval::SweepSummary summary;
  mpi.run("sweep", [&] {
    summary = run_shown(plan, options, arguments.common.quiet, alone);
    mpi.team().all(true);  // everybody's records are there
  });
  if (first) show_results(plan, options, summary, arguments.common.json);
}

void repeat(const SweepArguments& arguments) {
  const eval::SweepRecord record = eval::read_record(arguments.repeat);
  eval::SweepOptions options = options_of(arguments);
  SweepDisplay display(arguments.common.quiet, true);
  options.progress = [&](const eval::SweepProgress& progress) { display.update(progress); };
  eval::SweepRecord again;
  std::exception_ptr error;
  try {
    again = eval::repeat_record(record, options);
  } catch (...) {
    error = std::current_exception();
  }
  display.close();
  if (error) std::rethrow_exception(error);
  for (const std::string& warning : again.warnings) warn(warning);
  show_repetition(eval::diff_records(record, again), arguments.common.json);
}

void run(const SweepArguments& arguments, const CLI::App& app) {
  arguments.common.apply();
  const int modes =
      (arguments.sweep.empty() ? 0 : 1) + (arguments.repeat.empty() ? 0 : 1) + (arguments.watch.empty() ? 0 : 1);
  NIBBLE_REQUIRE(modes == 1, InvalidArgument, "expected one of SWEEP, --repeat and --watch, got {} of them", modes);
  if (!arguments.watch.empty()) {
    refuse_given(app,
                 {"--output", "--dry-run", "--retry-failed", "--shard", "--memory", "--cache", "--cache-size",
                  "--threads", "--quiet"},
                 "--watch");
    return watch_sweep(arguments.watch, arguments.common.json);
  }
  if (!arguments.repeat.empty()) {
    refuse_given(app, {"--dry-run", "--retry-failed", "--shard"}, "--repeat");
    return repeat(arguments);
  }

  if (arguments.dry_run) refuse_given(app, {"--retry-failed", "--cache", "--cache-size", "--quiet"}, "--dry-run");
  const eval::SweepSpec spec = eval::load_sweep(arguments.sweep);
  NIBBLE_REQUIRE(arguments.dry_run || !arguments.output.empty(), InvalidArgument,
                 "-o, the directory of the records, is missing");
  for (const std::filesystem::path& directory : {arguments.output, arguments.cache})  // before the texts are read
    if (!directory.empty()) eval::require_no_checkpoint(directory);
  const eval::Shard shard = parse_shard(arguments.shard);
  eval::SweepPlan plan = eval::plan_sweep(spec);
  eval::estimate(plan, parse_memory_size("--memory", arguments.memory));
  if (arguments.dry_run)
    return show_plan(plan, shard, parse_memory_size("--memory", arguments.memory), arguments.common.json);
  for (const std::string& warning : plan.warnings) warn(warning);
  run_cells(arguments, plan);
}

}  // namespace

Command sweep_command(CLI::App& program) {
  auto arguments = std::make_shared<SweepArguments>();
  CLI::App* app = program.add_subcommand("sweep", "Run a grid of settings over models to the end, whatever happens");
  add_path(*app, "SWEEP", arguments->sweep, "", "Models, recipes and evaluations in YAML (docs/sweep.md)");
  add_path(*app, "-o,--output", arguments->output, "DIR", "Where the records go, one for each cell");
  app->add_flag(
      "--dry-run", arguments->dry_run,
      "List the cells with time, memory and disk, and do nothing else; goes with --shard, --memory and --threads");
  app->add_flag("--retry-failed", arguments->retry_failed, "Do cells again that failed");
  app->add_option("--shard", arguments->shard, "Do the i-th of n parts: for jobs of a cluster")->type_name("i/n");
  app->add_option("--memory", arguments->memory, "Memory for the cells in work together, like 512M or 16G")
      ->type_name("SIZE")
      ->capture_default_str();
  add_path(*app, "--cache", arguments->cache, "DIR", "Where calibrations are kept [default: in the output]");
  app->add_option("--cache-size", arguments->cache_size, "Beyond this, what was not used for longest is deleted")
      ->type_name("SIZE")
      ->capture_default_str();
  add_path(*app, "--repeat", arguments->repeat, "RECORD", "Do the cell of a record again, and compare");
  add_path(*app, "--watch", arguments->watch, "DIR", "Show how far the sweeps of a directory are");
  add_common_options(*app, arguments->common);
  app->footer(
      "Example:\n"
      "  nibble sweep datasets/demo/sweep.yaml -o build/results\n"
      "  nibble sweep --watch build/results\n"
      "Interrupt it, kill it: the same command goes on where it was. So does another process with the same command.");
  return {app, [arguments, app] { run(*arguments, *app); }};
}

}  // namespace nibble::cli
