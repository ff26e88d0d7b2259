#include <fmt/format.h>

#include <CLI/App.hpp>
#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calib/collect/collector.h"
#include "calib/collect/extend.h"
#include "calib/stats/merge_stats.h"
#include "cli/arguments/calibration_text.h"
#include "cli/arguments/memory_size.h"
#include "cli/arguments/options.h"
#include "cli/arguments/output_path.h"
#include "cli/arguments/token_input.h"
#include "cli/command.h"
#include "cli/mpi_session.h"
#include "cli/show/calibration.h"
#include "cli/show/unexpected.h"
#include "cli/terminal/human.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "cli/terminal/table.h"
#include "core/error.h"
#include "core/files/file_lock.h"
#include "core/machine/memory.h"
#include "core/machine/thread_pool.h"
#include "core/text/json.h"
#include "datasets/calibration_windows.h"
#include "model/architecture/architecture.h"
#include "model/open/open_model.h"
#include "quant/job/statistics/calibrate_model.h"

namespace nibble::cli {
namespace {

struct CalibrateArguments {
  CommonOptions common;
  CalibrationTextOptions text;
  std::filesystem::path model, output, show, extend;
  std::vector<std::string> merge;
  std::string collect = "activations,fisher", fisher = "sequence", labels = "data", centre = "none";
  std::optional<std::string> guide;
  bool head = false;
};

quant::CalibrateOptions options_of(const CalibrateArguments& arguments) {
  return {.collect = calib::parse_statistic_set(arguments.collect),
          .fisher = calib::parse_fisher_flavour(arguments.fisher),
          .labels = calib::parse_labels(arguments.labels),
          .centre = arguments.centre,
          .guide = arguments.guide ? std::optional(calib::parse_guide(*arguments.guide)) : std::nullopt,
          .head = arguments.head};
}

void announce(const calib::CalibrationPlan& plan, double seconds, const calib::RunSettings& settings) {
  tell(fmt::format(
      "calibrate: {} windows of {} tokens{}; about {}, {} of memory ({} of sums for a block{}), {} of disk\n",
      with_separators(settings.windows), settings.window_tokens,
      settings.collected.is_guided() ? fmt::format(", guide {}", calib::to_text(settings.guide)) : "",
      human_duration(seconds), human_bytes(plan.memory_bytes), human_bytes(plan.accumulator_bytes),
      plan.residuals_on_disk ? "; boundary activations in a scratch file" : "", human_bytes(plan.disk_bytes)));
}

// A file says of which builds all that was added up in it is.
void warn_of_programs(const std::filesystem::path& output) {
  const std::array settings{calib::StatsFile::open(output)->settings()};
  if (const auto warning = calib::warning_of_programs(settings)) warn(*warning);
}

void collect(const CalibrateArguments& arguments, MpiSession& mpi) {
  const bool first = mpi.team().rank() == 0;
  const PeakAnonymousMemory memory;
  const auto start = std::chrono::steady_clock::now();
  const quant::LoadedModel model = quant::load_model(arguments.model);
  quant::check_model(model);  // before any text is read
  calib::require_window_length(model.architecture, arguments.text.length);
  create_parents(arguments.output);
  if (first) warn_of_unexpected(*model.checkpoint);
  const quant::CalibrationSource source = arguments.text.source();
  const auto tokenizer = source.tokens.empty() ? open_text_tokenizer(arguments.model)
                         : source.bos          ? model::open_tokenizer_if_any(arguments.model)
                                               : nullptr;
  ProgressBar bar = ProgressBar::for_process(arguments.common.quiet || !first);
  const datasets::CalibrationWindows windows =
      quant::read_calibration_windows(source, model.architecture, tokenizer.get(), arguments.model, bar.sink());
  bar.finish();
  if (first) {
    for (const std::string& warning : datasets::warnings(windows)) warn(warning);
    if (const auto warning = model::warning_of_length(model.architecture, windows.length)) warn(*warning);
  }

  calib::CalibrationJob job =
      quant::calibration_job(model, tokenizer.get(), source, windows, options_of(arguments), arguments.output);
  job.memory_bytes = parse_memory_size("--memory", arguments.text.memory);
  job.progress = bar.sink();
  job.team = &mpi.team();
  const calib::RunSettings settings = calib::complete_settings(job);
  const calib::CalibrationJob run = arguments.extend.empty() ? job : calib::added_windows(job, arguments.extend);
  const calib::CalibrationPlan plan = calib::plan_job(run);
  if (first && !arguments.common.quiet) announce(plan, calib::estimate_seconds(plan), calib::complete_settings(run));
  const double done =
      arguments.extend.empty() ? calib::calibrate(job) : calib::extend_calibration(job, arguments.extend);
  bar.finish();
  if (!first) return;
  warn_of_programs(arguments.output);
  for (const std::string& warning : quant::warnings(model.architecture, *calib::StatsFile::open(arguments.output)))
    warn(warning);

  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::uint64_t tokens = run.tokens.size();
  const double tokens_per_second = done * static_cast<double>(tokens) / seconds;  // of what an earlier run did none
  const std::uint64_t output_bytes = std::filesystem::file_size(arguments.output);
  if (arguments.common.json) {
    nlohmann::ordered_json object = {{"model", arguments.model.string()},
                                     {"output", arguments.output.string()},
                                     {"output_bytes", output_bytes},
                                     {"tokens", tokens},
                                     {"seconds", seconds},
                                     {"share_done", done},
                                     {"tokens_per_second", tokens_per_second},
                                     {"threads", thread_count()},
                                     {"processes", mpi.team().size()},
                                     {"peak_anonymous_bytes", memory.bytes()},
                                     {"planned_memory_bytes", plan.memory_bytes},
                                     {"residuals_on_disk", plan.residuals_on_disk}};
    for (const auto& [name, value] : calib::describe(settings)) object["settings"][name] = value;
    return print_json(object);
  }
  print(aligned_facts({
      {"output", fmt::format("{} ({})", arguments.output.string(), human_bytes(output_bytes))},
      {"collected", calib::to_text(settings.collected)},
      {"windows", fmt::format("{} of {} tokens, {}", with_separators(settings.windows), settings.window_tokens,
                              settings.sampling)},
      {"speed", done == 0.0 ? "nothing was left to run"
                            : fmt::format("{} tokens/s ({}, {} thread{})", human_count(tokens_per_second),
                                          human_duration(seconds), thread_count(), thread_count() == 1 ? "" : "s")},
      {"peak memory", fmt::format("{} beside the mapped checkpoint of {}", human_bytes(memory.bytes()),
                                  human_bytes(model.checkpoint->tensor_bytes()))},
  }));
}

void merge(const CalibrateArguments& arguments) {
  const std::vector<std::filesystem::path> inputs(arguments.merge.begin(), arguments.merge.end());
  create_parents(arguments.output);
  remove_left_lock(arguments.output);
  NIBBLE_REQUIRE(!std::filesystem::exists(arguments.output), InvalidArgument,
                 "'{}' is there already; remove it or choose another -o", arguments.output.string());
  calib::merge_stats(inputs, arguments.output);
  warn_of_programs(arguments.output);
  if (!arguments.common.json) {
    return print(fmt::format("merged {} files into {} ({})\n", inputs.size(), arguments.output.string(),
                             human_bytes(std::filesystem::file_size(arguments.output))));
  }
  print_json({{"merged", arguments.merge}, {"output", arguments.output.string()}});
}

void run(const CalibrateArguments& arguments, const CLI::App& app) {
  arguments.common.apply();
  const bool collects = !arguments.model.empty();
  const int modes = (collects ? 1 : 0) + (arguments.merge.empty() ? 0 : 1) + (arguments.show.empty() ? 0 : 1);
  NIBBLE_REQUIRE(modes == 1, InvalidArgument, "calibrate: expected one of MODEL, --merge and --show, got {} of them",
                 modes);
  NIBBLE_REQUIRE(collects || arguments.extend.empty(), InvalidArgument, "calibrate: --extend goes with a MODEL");
  if (!collects)
    refuse_given(app,
                 {"--text", "--tokens", "--field", "--length", "--samples", "--seed", "--bos", "--memory", "--collect",
                  "--fisher", "--labels", "--centre", "--guide", "--head", "--threads", "--quiet"},
                 arguments.show.empty() ? "--merge" : "--show");
  if (!arguments.show.empty()) refuse_given(app, {"--output"}, "--show");
  if (!arguments.show.empty()) return show_calibration(arguments.show, arguments.common.json);
  NIBBLE_REQUIRE(!arguments.output.empty(), InvalidArgument, "calibrate: -o, the file to write, is missing");
  if (!arguments.merge.empty()) return merge(arguments);
  NIBBLE_REQUIRE(arguments.text.text.empty() != arguments.text.tokens.empty(), InvalidArgument,
                 "calibrate: expected either --text or --tokens");
  check_calibration_text(app, arguments.text, arguments.labels != "data");
  quant::check_guide(options_of(arguments));  // before any text is read
  MpiSession mpi;
  mpi.run("calibrate", [&] { collect(arguments, mpi); });
}

}  // namespace

Command calibrate_command(CLI::App& program) {
  auto arguments = std::make_shared<CalibrateArguments>();
  CLI::App* app =
      program.add_subcommand("calibrate", "Collect activation statistics, Fisher sensitivities and Hessians");
  add_path(*app, "MODEL", arguments->model, "", "Checkpoint: a directory (config.json, *.safetensors) or a .gguf file");
  add_calibration_text(*app, arguments->text);
  app->add_option("--collect", arguments->collect,
                  "List of activations, fisher, hessian, guided-hessian, output-hessian (blocks only)")
      ->type_name("LIST")
      ->capture_default_str();
  app->add_option("--fisher", arguments->fisher, "sequence: gradients of a window's mean loss; or position")
      ->type_name("NAME")
      ->capture_default_str();
  app->add_option("--labels", arguments->labels, "data: the text's next tokens; sampled: drawn from the model")
      ->type_name("NAME")
      ->capture_default_str();
  app->add_option("--centre", arguments->centre,
                  "Gradients as if the mean input were in the bias: none, own, or a calibration file with the means")
      ->type_name("NAME")
      ->capture_default_str();
  app->add_option(
         "--guide", arguments->guide,
         "What tokens weigh in guided and output Hessians: whitened (default), or plain (two thirds of the time)")
      ->type_name("NAME");
  app->add_flag("--head", arguments->head, "Collect the output layer too");
  add_path(*app, "-o,--output", arguments->output, "FILE", "Calibration file to write (HDF5)");
  add_path(*app, "--extend", arguments->extend, "FILE",
           "Calibration file of the first of these windows: only the others are run");
  check_path(app->add_option("--merge", arguments->merge, "Calibration files to add up into -o"))->type_name("FILE…");
  add_path(*app, "--show", arguments->show, "FILE", "Print what a calibration file holds, layer by layer");
  add_common_options(*app, arguments->common, "on a MODEL");
  app->footer(
      "Example:\n"
      "  nibble calibrate datasets/demo/gpt2-demo --text datasets/demo/calibration.txt --samples 16 -o build/calib.h5\n"
      "  nibble calibrate datasets/demo/gpt2-demo --text datasets/demo/calibration.txt --samples 64 -o build/best.h5 "
      "\\\n"
      "    --collect activations,guided-hessian,output-hessian   # what the presets best, windowed and scalar need "
      "besides the text\n"
      "  nibble calibrate datasets/demo/gpt2-demo --text datasets/demo/calibration.txt --samples 64 \\\n"
      "    --extend build/calib.h5 -o build/calib-64.h5\n"
      "  nibble calibrate --show build/calib.h5\n"
      "A run that was interrupted goes on when the same command is given again.");
  return {app, [arguments, app] { run(*arguments, *app); }};
}

}  // namespace nibble::cli
