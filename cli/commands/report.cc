#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "cli/arguments/options.h"
#include "cli/arguments/output_path.h"
#include "cli/command.h"
#include "cli/terminal/output.h"
#include "core/error.h"
#include "core/files/output_file.h"
#include "core/text/json.h"
#include "eval/report/build_report.h"
#include "eval/report/pooled_texts.h"
#include "eval/report/report_input.h"
#include "eval/report/writers.h"

namespace nibble::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> inputs, outputs;
  std::string title = eval::ReportOptions().title;
  std::string baseline;
  std::filesystem::path published;
  eval::SettingNames rows, columns;
  std::string over;
  bool json = false;
};

std::string contents(const std::filesystem::path& output, const eval::ReportInput& input, const eval::Report& report) {
  const std::string extension = output.extension().string();
  if (extension == ".html" || extension == ".htm") return eval::html_report(report);
  if (extension == ".md") return eval::markdown_report(report);
  if (extension == ".tex") return eval::tex_report(report);
  if (extension == ".csv") return eval::csv_report(input);
  throw InvalidArgument(fmt::format("-o '{}': expected a name that ends in .html, .md, .tex or .csv", output.string()));
}

bool is_csv(const std::string& output) { return std::filesystem::path(output).extension() == ".csv"; }

void check_outputs(const std::vector<std::string>& outputs) {
  std::set<std::filesystem::path> taken;
  for (const std::string& output : outputs) {
    std::error_code ignored;  // what else is wrong with it is said when it is opened
    NIBBLE_REQUIRE(!std::filesystem::is_directory(output, ignored), InvalidArgument,
                   "-o '{}': expected a file, got a directory", output);
    NIBBLE_REQUIRE(taken.insert(std::filesystem::absolute(output).lexically_normal()).second, InvalidArgument,
                   "-o '{}': expected another file than the other -o", output);
  }
}

std::optional<eval::ExpectedCount> expectations(const eval::ReportOptions& options, const eval::ReportInput& input) {
  if (!options.published) return {};
  eval::Entries measured;
  for (const eval::Entry& entry : input.entries) measured.push_back(&entry);
  const eval::ExpectedCount count = eval::count_expected(*options.published, measured);
  return count.expects() ? std::optional(count) : std::nullopt;
}

void run(const ReportArguments& arguments, const CLI::App& app) {
  check_outputs(arguments.outputs);
  if (std::ranges::all_of(arguments.outputs, is_csv))
    refuse_given(app, {"--title", "--rows", "--columns", "--over"}, "-o FILE.csv alone, a list of all cells");
  eval::ReportInput input = eval::load_report_input({arguments.inputs.begin(), arguments.inputs.end()});
  for (const std::string& output : arguments.outputs) create_parents(output);
  eval::pool_texts(input);
  eval::compare_to_baseline(input, arguments.baseline);
  eval::ReportOptions options = {
      .title = arguments.title, .rows = arguments.rows, .columns = arguments.columns, .over = arguments.over};
  if (!arguments.published.empty()) options.published = eval::load_published(arguments.published);
  const eval::Report report = eval::build_report(input, options);
  // All are written before the first gets its name: a mistake leaves every file as it was.
  std::vector<std::unique_ptr<OutputFile>> files;
  for (const std::string& output : arguments.outputs) {
    const std::string text = contents(output, input, report);
    files.push_back(std::make_unique<OutputFile>(output));
    files.back()->write(text);
  }
  nlohmann::ordered_json written = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < files.size(); ++i) {
    files[i]->commit();
    written.push_back({{"path", arguments.outputs[i]}, {"bytes", files[i]->bytes_written()}});
  }
  for (const std::string& warning : report.warnings) warn(warning);
  const std::optional<eval::ExpectedCount> expected = expectations(options, input);
  if (arguments.json) {
    nlohmann::ordered_json result = {{"cells", input.entries.size() + input.speeds.size()},
                                     {"failed", input.failed.size()},
                                     {"passed_over", input.problems},
                                     {"written", std::move(written)}};
    if (expected)
      result["expected"] = {
          {"inside", expected->inside}, {"measured", expected->measured}, {"missing", expected->missing}};
    print_json(result);
  } else {
    for (const auto& file : written)
      print(fmt::format("{} ({} cells, {} failed): {} bytes\n", file["path"].get<std::string>(),
                        input.entries.size() + input.speeds.size(), input.failed.size(),
                        file["bytes"].get<std::size_t>()));
    if (expected) print(eval::expected_text(*expected) + "\n");
  }
}

}  // namespace

Command report_command(CLI::App& program) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* app = program.add_subcommand("report", "Tables and figures of sweep records, for a browser or a paper");
  check_path(
      app->add_option("RESULTS", arguments->inputs,
                      "Directories or files: sweep records; what speed and inspect --compress print with --json"))
      ->required()
      ->type_name("PATH");
  check_path(
      app->add_option("-o,--output", arguments->outputs, "What to write: .html, .md, .tex, .csv; may be repeated"))
      ->required()
      ->type_name("FILE");
  app->add_option("--rows", arguments->rows, "Settings that make the rows of tables (default: what varies)")
      ->delimiter(',')
      ->type_name("SETTING,…");
  app->add_option("--columns", arguments->columns,
                  "Settings that make the columns (default: bits, with budgets width, or models)")
      ->delimiter(',')
      ->type_name("SETTING,…");
  app->add_option("--over", arguments->over,
                  "A setting of chance (seed: draws of the calibration): tables of means ± deviations over its values")
      ->type_name("SETTING");
  app->add_option("--baseline", arguments->baseline, "Name of the recipe to compare with (default: the float model)")
      ->type_name("RECIPE");
  add_path(*app, "--published", arguments->published, "FILE",
           "Published perplexities, and ranges expected, to stand beside the measured ones");
  app->add_option("--title", arguments->title, "Title of the report")->type_name("TEXT")->capture_default_str();
  add_json_flag(*app, arguments->json);
  app->footer(
      "Example:\n"
      "  nibble report results/ -o report.html -o report.csv\n"
      "  nibble report results/ -o table.tex --rows weighting,scaling,shifting --columns bits");
  return {app, [arguments, app] { run(*arguments, *app); }};
}

}  // namespace nibble::cli
