#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/arguments/dtype_names.h"
#include "cli/arguments/options.h"
#include "cli/command.h"
#include "cli/show/unexpected.h"
#include "cli/terminal/human.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "cli/terminal/table.h"
#include "core/error.h"
#include "core/text/choice.h"
#include "core/text/json.h"
#include "export/export_checkpoint.h"
#include "model/open/open_model.h"

namespace nibble::cli {
namespace {

constexpr std::array<Choice<exporting::Rest>, 2> kRests{
    {{"refuse", exporting::Rest::kRefuse}, {"float16", exporting::Rest::kFloat16}}};

struct ExportArguments {
  CommonOptions common;
  std::filesystem::path model, output;
  std::string format = "dequantized", rest = "refuse", dtype, layout;
  std::size_t context = 0;  // as the format has it
  bool overwrite = false, golden = false, list = false;
};

std::string_view kind_text(exporting::Fit::Kind kind) {
  switch (kind) {
    case exporting::Fit::Kind::kExact:
      return "exact";
    case exporting::Fit::Kind::kRounded:
    case exporting::Fit::Kind::kFloats:
      return "16 bits";
    case exporting::Fit::Kind::kRefused:
      break;
  }
  return "refused";
}

void list(const ExportArguments& arguments) {
  if (arguments.common.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    for (const exporting::Exporter* exporter : exporting::exporters()) {
      nlohmann::ordered_json& line = json[std::string(exporter->name)];
      line["programs"] = exporter->programs;
      for (const auto& [storage, fit] : exporting::listed_fits(*exporter))
        line["storages"][storage] = {{"fit", kind_text(fit.kind)}, {"why", fit.why}, {"nearest", fit.nearest}};
    }
    print_json(json);
    return;
  }
  std::vector<Column> columns{{"storage", Align::kLeft}};
  for (const exporting::Exporter* exporter : exporting::exporters())
    columns.push_back({std::string(exporter->name), Align::kLeft});
  Table table(columns);
  std::vector<std::vector<std::string>> rows;
  for (const exporting::Exporter* exporter : exporting::exporters()) {
    const auto fits = exporting::listed_fits(*exporter);
    rows.resize(fits.size());
    for (std::size_t i = 0; i < fits.size(); ++i) {
      if (rows[i].empty()) rows[i].push_back(fits[i].storage);
      rows[i].emplace_back(kind_text(fits[i].fit.kind));
    }
  }
  for (auto& row : rows) table.add_row(std::move(row));
  print(table.text() +
        "\nexact: codes and values as they are; 16 bits: values rounded to floats of 16 bits (dequantized: or of the "
        "type\n"
        "that --dtype says); refused: unless --rest float16 has such tensors written as floats.\n\n");
  std::vector<std::pair<std::string, std::string>> programs;
  for (const exporting::Exporter* exporter : exporting::exporters())
    programs.emplace_back(exporter->name, exporter->programs);
  print(aligned_facts(programs));
}

nlohmann::ordered_json json_of(const ExportArguments& arguments, const exporting::ExportResult& result,
                               double seconds) {
  return {{"model", arguments.model.string()},
          {"output", arguments.output.string()},
          {"format", arguments.format},
          {"tensor_bytes", result.written.bytes},
          {"bits_per_weight", result.bits_per_weight},
          {"coded_matrices", result.coded},
          {"written_as_floats", result.as_floats},
          {"notes", result.written.notes},
          {"read_back",
           {{"values", result.read_back.values},
            {"coded_values", result.read_back.coded_values},
            {"rounded", result.read_back.rounded},
            {"largest_difference", result.read_back.largest_difference}}},
          {"seconds", seconds}};
}

std::string text_of(const ExportArguments& arguments, const exporting::ExportResult& result, double seconds) {
  const exporting::ReadBack& check = result.read_back;
  const std::string rounded =
      check.rounded == 0
          ? "all equal"
          : fmt::format("{} rounded, by at most {:.3g}", with_separators(check.rounded), check.largest_difference);
  std::string text =
      aligned_facts({{"output", fmt::format("{} ({})", arguments.output.string(), arguments.format)},
                     {"size", fmt::format("{} of tensors, {:.4f} bits per weight of the linear layers",
                                          human_bytes(result.written.bytes), result.bits_per_weight)},
                     {"matrices", fmt::format("{} written as codes, {} as floats because the format cannot hold them",
                                              result.coded, result.as_floats.size())},
                     {"read back", fmt::format("{} values, {} of them codes: {}", with_separators(check.values),
                                               with_separators(check.coded_values), rounded)},
                     {"time", human_duration(seconds)}});
  return text;
}

void run(const ExportArguments& arguments) {
  arguments.common.apply();
  if (arguments.list) {
    list(arguments);
    return;
  }
  NIBBLE_REQUIRE(!arguments.model.empty(), InvalidArgument, "MODEL is required");
  NIBBLE_REQUIRE(!arguments.output.empty(), InvalidArgument, "--output is required: where the export goes");
  const exporting::Exporter& exporter = exporting::find_exporter(arguments.format);
  exporting::ExportOptions options;
  options.rest = choose("--rest", arguments.rest, kRests);
  options.golden = arguments.golden;
  if (!arguments.dtype.empty()) options.dtype = choose("--dtype", arguments.dtype, kDtypes);
  if (!arguments.layout.empty()) options.layout = arguments.layout;
  if (arguments.context > 0) options.context = arguments.context;
  const auto start = std::chrono::steady_clock::now();
  ProgressBar bar = ProgressBar::for_process(arguments.common.quiet);
  const exporting::ExportResult result = exporting::export_checkpoint({.model = arguments.model,
                                                                       .output = arguments.output,
                                                                       .exporter = exporter,
                                                                       .options = options,
                                                                       .overwrite = arguments.overwrite,
                                                                       .progress = bar.sink()});
  bar.finish();
  warn_of_unexpected(*model::open_checkpoint(arguments.model));
  if (result.coded == 0 && arguments.format != "dequantized")
    warn("no matrix is written as codes: this is the model in floats, in the form of that format");
  for (const std::string& matrix : result.as_floats) warn("written in 16 bits: " + matrix);
  for (const std::string& note : result.written.notes) warn(note);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (arguments.common.json) {
    print_json(json_of(arguments, result, seconds));
  } else {
    print(text_of(arguments, result, seconds));
  }
}

std::string format_names() {
  std::vector<std::string_view> names;
  for (const exporting::Exporter* exporter : exporting::exporters()) names.push_back(exporter->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Command export_command(CLI::App& program) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* app = program.add_subcommand("export", "Write a checkpoint in a form that other programs read");
  add_path(*app, "MODEL", arguments->model, "", "Checkpoint: a directory, quantized or float, or a .gguf file");
  app->add_option("--format", arguments->format, format_names())->type_name("NAME")->capture_default_str();
  add_path(*app, "-o,--output", arguments->output, "PATH",
           "Where the export goes: a directory (coreml: NAME.mlpackage), or a file (gguf)");
  app->add_option("--rest", arguments->rest,
                  "What becomes of coded matrices that the format cannot hold: refuse, or float16, written as floats")
      ->type_name("HOW")
      ->capture_default_str();
  app->add_option("--dtype", arguments->dtype,
                  "Of the floats of formats that leave it open: float16 (default), bfloat16, float32")
      ->type_name("NAME");
  app->add_option("--layout", arguments->layout, "Where a format has several: which, the first by default")
      ->type_name("NAME");
  add_count(*app, "--context", arguments->context,
            "Where a format needs it: positions that a text may have (coreml: 2048, or what the model has)");
  app->add_flag("--golden", arguments->golden, "Where a format has them: write tokens and logits to check against");
  auto* list = app->add_flag("--list", arguments->list, "Print which format holds which storage, and do nothing else");
  app->add_flag("--overwrite", arguments->overwrite, "Replace the output if it exists");
  add_common_options(*app, arguments->common);
  for (const char* name : {"MODEL", "--format", "--output", "--rest", "--dtype", "--layout", "--context", "--golden",
                           "--overwrite", "--threads", "--quiet"})
    list->excludes(app->get_option(name));
  app->footer(
      "Example:\n"
      "  nibble export build/gpt2-demo-3bit --format dequantized -o build/gpt2-demo-3bit-f16\n"
      "  nibble export model-Q4_K_M.gguf --format dequantized -o build/model-f16\n"
      "  nibble export --list");
  return {app, [arguments] { run(*arguments); }};
}

}  // namespace nibble::cli
