#include <fmt/format.h>

#include <CLI/App.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cli/arguments/options.h"
#include "cli/command.h"
#include "cli/terminal/human.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "core/text/json.h"
#include "model/architecture/known_shapes.h"
#include "model/checkpoint/checkpoint.h"
#include "model/synthesize/synthesize_model.h"

namespace nibble::cli {
namespace {

struct SynthesizeArguments {
  CommonOptions common;
  std::filesystem::path output;
  std::string like;
  std::uint64_t seed = 0, layers = 0;
  bool overwrite = false;
};

void run(const SynthesizeArguments& arguments) {
  arguments.common.apply();
  const auto layers = arguments.layers > 0 ? std::optional(arguments.layers) : std::nullopt;
  const std::string config = model::architecture_config(arguments.like, layers);
  const auto start = std::chrono::steady_clock::now();
  ProgressBar bar = ProgressBar::for_process(arguments.common.quiet);
  model::synthesize_model(config, arguments.output,
                          {.seed = arguments.seed, .overwrite = arguments.overwrite, .progress = bar.sink()});
  bar.finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::uint64_t bytes = model::Checkpoint::open(arguments.output)->tensor_bytes();
  if (arguments.common.json) {
    print_json({{"like", arguments.like},
                {"output", arguments.output.string()},
                {"seed", arguments.seed},
                {"parameters", bytes / 2},
                {"tensor_bytes", bytes},
                {"seconds", seconds}});
  } else {
    print(fmt::format("{}: {} random float16 weights like {} ({} in {})\n", arguments.output.string(),
                      human_count(static_cast<double>(bytes) / 2), arguments.like, human_bytes(bytes),
                      human_duration(seconds)));
  }
}

}  // namespace

Command synthesize_command(CLI::App& program) {
  auto arguments = std::make_shared<SynthesizeArguments>();
  CLI::App* app =
      program.add_subcommand("synthesize", "Write a checkpoint of a known shape with random weights, for speed work");
  app->add_option("--like", arguments->like,
                  fmt::format("Whose shape: {}", fmt::join(model::architecture_names(), ", ")))
      ->type_name("NAME")
      ->required();
  add_path(*app, "-o,--output", arguments->output, "DIR", "Where the checkpoint goes")->required();
  add_count(*app, "--seed", arguments->seed, "Another seed, other weights [default: 0]", {.low = 0});
  add_count(*app, "--layers", arguments->layers, "Blocks, if not as many as the original has", {.high = 4096});
  app->add_flag("--overwrite", arguments->overwrite, "Replace the output directory if it exists");
  add_common_options(*app, arguments->common);
  app->footer(
      "The weights are random: such a model predicts nothing, and no text comes with it (no tokenizer).\n"
      "Example:\n"
      "  nibble synthesize --like llama-3.2-1b -o build/1b\n"
      "  nibble quantize build/1b --preset int4-block -o build/1b-int4\n"
      "  nibble speed build/1b-int4");
  return {app, [arguments] { run(*arguments); }};
}

}  // namespace nibble::cli
