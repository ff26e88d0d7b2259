#include <fmt/format.h>

#include <CLI/App.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/arguments/dtype_names.h"
#include "cli/arguments/options.h"
#include "cli/command.h"
#include "cli/terminal/human.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "cli/terminal/table.h"
#include "core/text/json.h"
#include "export/rotate_checkpoint.h"

namespace nibble::cli {
namespace {

struct RotateArguments {
  CommonOptions common;
  std::filesystem::path model, output;
  std::string dtype = "float32";
  std::uint64_t seed = 0;
  bool overwrite = false, residual_only = false;
};

void run(const RotateArguments& arguments) {
  arguments.common.apply();
  const DType dtype = choose("--dtype", arguments.dtype, kDtypes);
  const auto start = std::chrono::steady_clock::now();
  ProgressBar bar = ProgressBar::for_process(arguments.common.quiet);
  const exporting::RotateResult result =
      exporting::rotate_checkpoint({.model = arguments.model,
                                    .output = arguments.output,
                                    .rotation = {.seed = arguments.seed, .values = !arguments.residual_only},
                                    .dtype = dtype,
                                    .overwrite = arguments.overwrite,
                                    .progress = bar.sink()});
  bar.finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (arguments.common.json) {
    print_json({{"model", arguments.model.string()},
                {"output", arguments.output.string()},
                {"seed", arguments.seed},
                {"values_rotated", !arguments.residual_only},
                {"tensor_bytes", result.bytes},
                {"head_untied", result.untied},
                {"tokens_compared", result.tokens},
                {"largest_difference", result.largest_difference},
                {"largest_logit", result.largest_logit},
                {"seconds", seconds}});
    return;
  }
  print(aligned_facts(
      {{"output", fmt::format("{} ({} of {}{})", arguments.output.string(), human_bytes(result.bytes), arguments.dtype,
                              result.untied ? ", the head now a matrix of its own" : "")},
       {"logits", fmt::format("differ by at most {:.3g} of {:.3g}, on {} random tokens", result.largest_difference,
                              result.largest_logit, result.tokens)},
       {"time", human_duration(seconds)}}));
}

}  // namespace

Command rotate_command(CLI::App& program) {
  auto arguments = std::make_shared<RotateArguments>();
  CLI::App* app = program.add_subcommand(
      "rotate", "Write a float checkpoint in a random orthogonal basis, in which channels are alike: the same logits");
  add_path(*app, "MODEL", arguments->model, "", "Float checkpoint: a directory or a .gguf file")->required();
  add_path(*app, "-o,--output", arguments->output, "DIR", "Where the checkpoint goes")->required();
  app->add_option("--dtype", arguments->dtype, "Type of its floats: float32, float16 or bfloat16")
      ->type_name("NAME")
      ->capture_default_str();
  add_count(*app, "--seed", arguments->seed, "Another seed, another basis [default: 0]", {.low = 0});
  app->add_flag("--residual-only", arguments->residual_only, "Leave each head's values as they are");
  app->add_flag("--overwrite", arguments->overwrite, "Replace the output directory if it exists");
  add_common_options(*app, arguments->common);
  app->footer(
      "Example:\n"
      "  nibble rotate datasets/demo/llama-demo -o build/llama-demo-rotated\n"
      "  nibble quantize build/llama-demo-rotated --preset palette -o build/llama-demo-rotated-4bit");
  return {app, [arguments] { run(*arguments); }};
}

}  // namespace nibble::cli
