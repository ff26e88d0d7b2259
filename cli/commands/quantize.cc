#include "cli/commands/quantize.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments/calibration_text.h"
#include "cli/arguments/memory_size.h"
#include "cli/arguments/options.h"
#include "cli/arguments/token_input.h"
#include "cli/command.h"
#include "cli/show/budget_table.h"
#include "cli/show/unexpected.h"
#include "cli/terminal/human.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "cli/terminal/table.h"
#include "core/error.h"
#include "core/machine/memory.h"
#include "core/machine/thread_pool.h"
#include "core/text/json.h"
#include "model/open/open_model.h"
#include "quant/job/assemble.h"
#include "quant/job/quantize_model.h"
#include "quant/recipe/recipe.h"

namespace nibble::cli {
namespace {

struct QuantizeArguments {
  CommonOptions common;
  std::filesystem::path model, recipe, output;
  std::vector<std::string> calibration;
  CalibrationTextOptions text;
  std::string preset, target;
  std::vector<std::string> assignments;
  bool overwrite = false, print_recipe = false;
};

quant::Recipe recipe_of(const QuantizeArguments& arguments) {
  NIBBLE_REQUIRE(arguments.recipe.empty() || arguments.preset.empty(), InvalidArgument,
                 "--recipe and --preset both name a whole recipe; give one of them, and --set for single keys");
  quant::Recipe recipe = !arguments.recipe.empty()   ? quant::Recipe::load(arguments.recipe)
                         : !arguments.preset.empty() ? quant::Recipe::preset(arguments.preset)
                                                     : quant::Recipe();
  for (const std::string& assignment : arguments.assignments) recipe.apply_set(assignment);
  recipe.validate();
  return recipe;
}

struct Totals {
  std::uint64_t weights = 0, stored_bits = 0;
};
Totals totals_of(const quant::QuantizeResult& result) {
  Totals totals;
  for (const quant::TensorResult& tensor : result.tensors) {
    totals.weights += tensor.weights;
    totals.stored_bits += tensor.stored_bits;
  }
  return totals;
}

nlohmann::ordered_json json_of(const QuantizeArguments& arguments, const quant::Recipe& recipe,
                               const quant::QuantizeResult& result, double seconds, std::uint64_t peak) {
  nlohmann::ordered_json json{{"model", arguments.model.string()},
                              {"output", arguments.output.string()},
                              {"file_bytes", result.file_bytes},
                              {"weights", totals_of(result).weights},
                              {"seconds", seconds},
                              {"threads", thread_count()},
                              {"peak_anonymous_bytes", peak},
                              {"recipe", recipe.canonical_json()}};
  json.update(quant::report_json(result));
  return json;
}

// What is said of a weight when it is finished.
std::string line_of(const quant::TensorResult& tensor) {
  constexpr int kUsualName = 32;
  std::string line = fmt::format("{:<{}}  {:>7.4f} bits/weight  weight error {:.6f}", tensor.name, kUsualName,
                                 tensor.bits_per_weight, tensor.relative_weight_error);
  if (tensor.output_error) line += fmt::format("  output error {:.6f}", *tensor.output_error);
  return line + "  " + human_duration(tensor.seconds) + (tensor.resumed ? " (in an earlier run)" : "");
}

std::string tuning_text(const quant::TuningResult& tuning) {
  return fmt::format("held-out loss {:.6f} nats before, {:.6f} after epoch {} of {}, which was kept",
                     tuning.held_out.front(), tuning.held_out[tuning.best_epoch], tuning.best_epoch,
                     tuning.trained.size());
}

std::string text_of(const QuantizeArguments& arguments, const quant::QuantizeResult& result, double seconds,
                    std::uint64_t peak) {
  Table table({{"tensor", Align::kLeft},
               {"format", Align::kLeft},
               {"weights"},
               {"bits/weight"},
               {"relative error"},
               {"output error"},
               {"Fisher error"},
               {"gap"},
               {"time"}});
  const auto measured = [](const std::optional<double>& error, const char* format) {
    return error ? fmt::format(fmt::runtime(format), *error) : std::string("-");
  };
  for (const quant::TensorResult& tensor : result.tensors) {
    const bool exact = tensor.optimality_gap == 0.0;
    table.add_row({tensor.name, tensor.format, with_separators(tensor.weights),
                   fmt::format("{:.4f}", tensor.bits_per_weight), fmt::format("{:.6f}", tensor.relative_weight_error),
                   measured(tensor.output_error, "{:.6f}"), measured(tensor.fisher_error, "{:.3e}"),
                   exact ? "0" : fmt::format("{:.1e}", tensor.optimality_gap), human_duration(tensor.seconds)});
  }
  table.add_rule();
  const Totals totals = totals_of(result);
  table.add_row({fmt::format("{} tensors", result.tensors.size()), "", with_separators(totals.weights),
                 fmt::format("{:.4f}", static_cast<double>(totals.stored_bits) / static_cast<double>(totals.weights)),
                 "", "", "", "", human_duration(seconds)});
  const std::string tuning = result.tuning ? "tuning  " + tuning_text(*result.tuning) + "\n\n" : "";
  return (result.budget ? budget_text(*result.budget) + "\n" : "") + table.text() + "\n" + tuning +
         aligned_facts(
             {{"output", arguments.output.string()},
              {"size",
               fmt::format("{} of tensors, {:.4f} bits per weight over the whole model, {:.4f} over the "
                           "linear layers of its blocks",
                           human_bytes(result.file_bytes), result.model_bits_per_weight, result.bits_per_weight)},
              {"peak memory", human_bytes(peak)}});
}

// The windows for `sequential: true` and `tuning`.
std::optional<quant::CalibrationText> read_text(const QuantizeArguments& arguments, ProgressBar& bar) {
  if (!arguments.text.given()) return std::nullopt;
  quant::ReadText read = quant::read_calibration_text(arguments.text.source(), arguments.model, bar.sink());
  bar.finish();
  for (const std::string& warning : read.warnings) warn(warning);
  return std::move(read.text);
}

std::vector<std::filesystem::path> sources_of(const QuantizeArguments& arguments) {
  std::vector<std::filesystem::path> files(arguments.text.text.begin(), arguments.text.text.end());
  for (const std::filesystem::path& file : {arguments.text.tokens, arguments.recipe})
    if (!file.empty()) files.push_back(file);
  return files;
}

void run(const QuantizeArguments& arguments, ExportCheck require_exportable, const CLI::App& app) {
  arguments.common.apply();
  const quant::Recipe recipe = recipe_of(arguments);
  if (arguments.print_recipe) {
    refuse_given(
        app, {"MODEL", "--output", "--calib", "--text", "--tokens", "--memory", "--threads", "--overwrite", "--quiet"},
        "--print-recipe");
    if (require_exportable != nullptr) refuse_given(app, {"--for"}, "--print-recipe");
    if (arguments.common.json) {
      print_json(recipe.canonical_json());
    } else {
      print(recipe.canonical_text());
    }
    return;
  }
  NIBBLE_REQUIRE(!arguments.model.empty(), InvalidArgument, "MODEL is required");
  NIBBLE_REQUIRE(!arguments.output.empty(), InvalidArgument, "--output is required: where the checkpoint goes");

  if (!arguments.target.empty()) require_exportable(arguments.target, arguments.model, recipe);

  const PeakAnonymousMemory memory;
  const auto start = std::chrono::steady_clock::now();
  ProgressBar bar = ProgressBar::for_process(arguments.common.quiet);
  const auto text = read_text(arguments, bar);
  const quant::QuantizeResult result =
      quant::quantize_model({.model = arguments.model,
                             .output = arguments.output,
                             .recipe = recipe,
                             .calibration = {arguments.calibration.begin(), arguments.calibration.end()},
                             .text = text,
                             .sources = sources_of(arguments),
                             .overwrite = arguments.overwrite,
                             .memory_bytes = parse_memory_size("--memory", arguments.text.memory),
                             .progress = bar.sink(),
                             .tensor_done = [&](const auto& tensor) { bar.print_line(line_of(tensor)); }});
  bar.finish();
  warn_of_unexpected(*model::open_checkpoint(arguments.model));
  for (const std::string& warning : quant::warnings(result, arguments.model)) warn(warning);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (arguments.common.json) {
    print_json(json_of(arguments, recipe, result, seconds, memory.bytes()));
  } else {
    print(text_of(arguments, result, seconds, memory.bytes()));
  }
}

}  // namespace

Command make_quantize_command(CLI::App& program, ExportCheck require_exportable) {
  auto arguments = std::make_shared<QuantizeArguments>();
  CLI::App* app = program.add_subcommand("quantize", "Quantize a checkpoint by a recipe");
  add_path(*app, "MODEL", arguments->model, "", "Checkpoint: a directory (config.json, *.safetensors) or a .gguf file");
  add_path(*app, "-o,--output", arguments->output, "DIR", "Where the quantized checkpoint goes");
  add_path(*app, "-r,--recipe", arguments->recipe, "FILE", "Recipe in YAML or JSON (docs/recipe.md)");
  app->add_option("-p,--preset", arguments->preset,
                  fmt::format("A named recipe: {}", fmt::join(quant::Recipe::preset_names(), ", ")))
      ->type_name("NAME");
  app->add_option("-s,--set", arguments->assignments, "Set a key of the recipe; may be given several times")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  check_path(app->add_option(
                 "--calib", arguments->calibration,
                 "Calibration file of this model; may be given several times, and each statistic comes from the first "
                 "that has it"))
      ->type_name("FILE")
      ->allow_extra_args(false);
  if (require_exportable != nullptr)
    app->add_option("--for", arguments->target,
                    "Refuse, before any work, what `nibble export --format NAME` could not hold exactly")
        ->type_name("NAME");
  add_calibration_text(*app, arguments->text);
  app->add_flag("--overwrite", arguments->overwrite, "Replace the output directory if it exists");
  app->add_flag(
      "--print-recipe", arguments->print_recipe,
      "Print the recipe with its defaults filled in (docs/recipe.md: but those of later keys), and do nothing "
      "else");
  add_common_options(*app, arguments->common);
  app->footer(
      "Example:\n"
      "  nibble quantize datasets/demo/gpt2-demo -o build/gpt2-demo-3bit --set bits=3 --set granularity=channel\n"
      "  nibble quantize --preset int4-block --print-recipe");
  return {app, [arguments, require_exportable, app] {
            check_calibration_text(*app, arguments->text, false);
            run(*arguments, require_exportable, *app);
          }};
}

}  // namespace nibble::cli
