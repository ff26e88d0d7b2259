#include <fmt/format.h>

#include <CLI/App.hpp>
#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/command.h"
#include "cli/human.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "core/choice.h"
#include "export/export_model.h"
#include "model/checkpoint/checkpoint.h"

namespace nibble::cli {
namespace {

using ExportFunction = decltype(&quant::export_dequantized);
constexpr std::array<Choice<ExportFunction>, 1> kFormats = {{{"dequantized", quant::export_dequantized}}};

struct ExportArguments {
  CommonOptions common;
  std::filesystem::path model, output;
  std::string format = "dequantized";
  bool overwrite = false;
};

void run(const ExportArguments& arguments) {
  arguments.common.apply();
  const ExportFunction write = choose("--format", arguments.format, kFormats);
  const auto start = std::chrono::steady_clock::now();
  ProgressBar bar = ProgressBar::for_process(arguments.common.quiet);
  write(arguments.model, arguments.output, arguments.overwrite, bar.sink());
  bar.finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::uint64_t bytes = model::Checkpoint::open(arguments.output)->tensor_bytes();
  if (arguments.common.json) {
    print_json({{"model", arguments.model.string()},
                {"output", arguments.output.string()},
                {"format", arguments.format},
                {"tensor_bytes", bytes},
                {"seconds", seconds}});
  } else {
    print(fmt::format("{}: {} of plain float16 tensors in {}\n", arguments.output.string(), human_bytes(bytes),
                      human_duration(seconds)));
  }
}

}  // namespace

Command export_command(CLI::App& program) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* app = program.add_subcommand("export", "Write a quantized checkpoint in a form that other tools read");
  add_model(*app, arguments->model);
  app->add_option("--format", arguments->format, "dequantized: plain float16 safetensors, Hugging Face layout")
      ->type_name("NAME")
      ->capture_default_str();
  add_path(*app, "-o,--output", arguments->output, "DIR", "Where the exported checkpoint goes")->required();
  app->add_flag("--overwrite", arguments->overwrite, "Replace the output directory if it exists");
  add_common_options(*app, arguments->common);
  app->footer("Example:\n  nibble export build/gpt2-demo-3bit --format dequantized -o build/gpt2-demo-3bit-f16");
  return {app, [arguments] { run(*arguments); }};
}

}  // namespace nibble::cli
