#include <fmt/format.h>

#include <CLI/App.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "calib/collect/collector.h"
#include "calib/stats/merge_stats.h"
#include "cli/calibrate_show.h"
#include "cli/command.h"
#include "cli/human.h"
#include "cli/memory_size.h"
#include "cli/mpi_session.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/table.h"
#include "cli/token_input.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/thread_pool.h"
#include "datasets/calibration_windows.h"
#include "quant/pipeline/load_model.h"

namespace nibble::cli {
namespace {

struct Arguments {
  CommonOptions common;
  std::filesystem::path model, tokens, output, show;
  std::vector<std::string> text, merge;
  std::string field = "text", collect = "activations,fisher", fisher = "sequence", labels = "data", centre = "none";
  std::string memory = "4G";
  std::uint64_t length = 0, samples = 0, seed = 0;
  bool head = false;
};

constexpr std::uint64_t kDefaultSamples = 128;

datasets::CalibrationWindows read_windows(const Arguments& arguments, const quant::LoadedModel& model,
                                          const model::Tokenizer* tokenizer, std::size_t length,
                                          const ProgressSink& progress) {
  if (!arguments.tokens.empty())
    return datasets::fixed_calibration_windows(arguments.tokens, model.config.vocabulary, length, arguments.samples);
  NIBBLE_REQUIRE(tokenizer != nullptr, FormatError, "--text: '{}' has no tokenizer; give token ids with --tokens",
                 arguments.model.string());
  const std::vector<std::filesystem::path> files(arguments.text.begin(), arguments.text.end());
  return datasets::sample_calibration_windows(files, *tokenizer,
                                              {.samples = arguments.samples > 0 ? arguments.samples : kDefaultSamples,
                                               .length = length,
                                               .seed = arguments.seed,
                                               .field = arguments.field,
                                               .progress = progress});
}

calib::RunSettings settings_of(const Arguments& arguments, const quant::LoadedModel& model,
                               const model::Tokenizer* tokenizer, const datasets::CalibrationWindows& windows) {
  const bool sampled = arguments.tokens.empty();
  return {.model_hash = model.checkpoint->fingerprint(),
          .tokenizer_hash = sampled ? tokenizer->fingerprint() : "none",
          .text_hash = windows.fingerprint,
          .sampling = sampled ? "random slices" : "consecutive windows",
          .window_tokens = windows.length,
          .seeds = {arguments.seed},
          .flavour = calib::parse_fisher_flavour(arguments.fisher),
          .labels = calib::parse_labels(arguments.labels),
          .head = arguments.head,
          .collected = calib::parse_statistic_set(arguments.collect)};
}

void announce(const calib::CalibrationPlan& plan, double seconds, const calib::RunSettings& settings) {
  fmt::print(stderr,
             "calibrate: {} windows of {} tokens; about {}, {} of memory ({} of sums for a block{}), {} of disk\n",
             with_separators(settings.windows), settings.window_tokens, human_duration(seconds),
             human_bytes(plan.memory_bytes), human_bytes(plan.accumulator_bytes),
             plan.residuals_on_disk ? "; boundary activations in a scratch file" : "", human_bytes(plan.disk_bytes));
}

void collect(const Arguments& arguments, MpiSession& mpi) {
  const bool first = mpi.team().rank() == 0;
  const PeakAnonymousMemory memory;
  const auto start = std::chrono::steady_clock::now();
  const quant::LoadedModel model = quant::load_model(arguments.model);
  const auto tokenizer = arguments.tokens.empty() ? open_tokenizer_if_any(arguments.model) : nullptr;
  ProgressBar bar = ProgressBar::for_process(arguments.common.quiet || !first);
  const std::size_t length =
      arguments.length > 0 ? arguments.length : std::min<std::size_t>(512, model.config.max_positions);
  const datasets::CalibrationWindows windows = read_windows(arguments, model, tokenizer.get(), length, bar.sink());
  bar.finish();
  if (first) {
    for (const std::string& warning : datasets::warnings(windows)) warn(warning);
  }

  calib::CalibrationJob job{.model = *model.transformer,
                            .tokens = windows.tokens,
                            .settings = settings_of(arguments, model, tokenizer.get(), windows),
                            .output = arguments.output,
                            .memory_bytes = parse_memory_size("--memory", arguments.memory),
                            .progress = bar.sink(),
                            .team = &mpi.team()};
  if (arguments.centre == "own") {
    job.centre = calib::Centre::kOwn;
  } else if (arguments.centre != "none") {
    job.centre = calib::Centre::kFile;
    job.means = calib::StatsFile::open(arguments.centre);
  }
  const calib::RunSettings settings = calib::complete_settings(job);
  const calib::CalibrationPlan plan = calib::plan_job(job);
  if (first && !arguments.common.quiet) announce(plan, calib::estimate_seconds(plan), settings);
  calib::calibrate(job);
  bar.finish();
  if (!first) return;

  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::uint64_t tokens = windows.tokens.size();
  const std::uint64_t output_bytes = std::filesystem::file_size(arguments.output);
  if (arguments.common.json) {
    nlohmann::ordered_json object = {{"model", arguments.model.string()},
                                     {"output", arguments.output.string()},
                                     {"output_bytes", output_bytes},
                                     {"tokens", tokens},
                                     {"seconds", seconds},
                                     {"tokens_per_second", static_cast<double>(tokens) / seconds},
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
      {"speed", fmt::format("{} tokens/s ({}, {} thread{})", human_count(static_cast<double>(tokens) / seconds),
                            human_duration(seconds), thread_count(), thread_count() == 1 ? "" : "s")},
      {"peak memory", fmt::format("{} beside the mapped checkpoint of {}", human_bytes(memory.bytes()),
                                  human_bytes(model.checkpoint->tensor_bytes()))},
  }));
}

void merge(const Arguments& arguments) {
  const std::vector<std::filesystem::path> inputs(arguments.merge.begin(), arguments.merge.end());
  NIBBLE_REQUIRE(!std::filesystem::exists(arguments.output), InvalidArgument,
                 "'{}' is there already; remove it or choose another -o", arguments.output.string());
  calib::merge_stats(inputs, arguments.output);
  if (!arguments.common.json) {
    return print(fmt::format("merged {} files into {} ({})\n", inputs.size(), arguments.output.string(),
                             human_bytes(std::filesystem::file_size(arguments.output))));
  }
  print_json({{"merged", arguments.merge}, {"output", arguments.output.string()}});
}

void run(const Arguments& arguments) {
  arguments.common.apply();
  const bool collects = !arguments.model.empty();
  const int modes = (collects ? 1 : 0) + (arguments.merge.empty() ? 0 : 1) + (arguments.show.empty() ? 0 : 1);
  NIBBLE_REQUIRE(modes == 1, InvalidArgument, "calibrate: expected one of MODEL, --merge and --show, got {} of them",
                 modes);
  if (!arguments.show.empty()) return show_calibration(arguments.show, arguments.common.json);
  NIBBLE_REQUIRE(!arguments.output.empty(), InvalidArgument, "calibrate: -o, the file to write, is missing");
  if (!arguments.merge.empty()) return merge(arguments);
  NIBBLE_REQUIRE(arguments.text.empty() != arguments.tokens.empty(), InvalidArgument,
                 "calibrate: expected either --text or --tokens");
  MpiSession mpi;
  mpi.run([&] { collect(arguments, mpi); });
}

}  // namespace

Command calibrate_command(CLI::App& program) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* app = program.add_subcommand("calibrate", "Collect activation statistics and Fisher sensitivities");
  add_path(*app, "MODEL", arguments->model, "", "Checkpoint directory (config.json, *.safetensors)");
  app->add_option("--text", arguments->text, "Texts to sample from: .txt, .jsonl, also .gz and .zst")
      ->type_name("FILE…");
  add_path(*app, "--tokens", arguments->tokens, "FILE", "Consecutive windows of token ids (.u16, .u32) instead");
  app->add_option("--field", arguments->field, "The text's key in .jsonl")->type_name("NAME")->capture_default_str();
  add_count(*app, "--length", arguments->length, "Tokens in a window [default: 512, or the model's context]",
            {.low = 2, .high = 1 << 24});
  add_count(*app, "--samples", arguments->samples, "Windows to take [default: 128; with --tokens all]",
            {.low = 1, .high = 1 << 30});
  add_count(*app, "--seed", arguments->seed, "Seed of the sampling and of --labels sampled", {.low = 0});
  app->add_option("--collect", arguments->collect, "List of activations, fisher, hessian, guided-hessian")
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
  app->add_flag("--head", arguments->head, "Collect the output layer too");
  app->add_option("--memory", arguments->memory, "Memory to use, like 512M or 4G; beyond it goes to a scratch file")
      ->type_name("SIZE")
      ->capture_default_str();
  add_path(*app, "-o,--output", arguments->output, "FILE", "Calibration file to write (HDF5)");
  app->add_option("--merge", arguments->merge, "Calibration files to add up into -o")->type_name("FILE…");
  add_path(*app, "--show", arguments->show, "FILE", "Print what a calibration file holds, layer by layer");
  add_common_options(*app, arguments->common);
  app->footer(
      "Example:\n"
      "  nibble calibrate datasets/demo/gpt2-demo --text datasets/demo/calibration.txt --samples 16 -o build/calib.h5\n"
      "  nibble calibrate --show build/calib.h5\n"
      "A run that was interrupted goes on when the same command is given again.");
  return {app, [arguments] { run(*arguments); }};
}

}  // namespace nibble::cli
