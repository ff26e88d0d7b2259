#include "eval/sweep/diff.h"

#include <CLI/App.hpp>
#include <filesystem>
#include <memory>

#include "cli/arguments/options.h"
#include "cli/command.h"
#include "cli/show/differences.h"
#include "core/error.h"
#include "eval/sweep/record.h"
#include "model/open/open_model.h"

namespace nibble::cli {
namespace {

struct DiffArguments {
  CommonOptions common;
  std::filesystem::path a, b;
};

void run(const DiffArguments& arguments, const CLI::App& app) {
  arguments.common.apply();
  const auto is_model = [](const std::filesystem::path& path) {
    NIBBLE_REQUIRE(std::filesystem::exists(path), FormatError, "'{}': no such file or directory", path.string());
    return std::filesystem::is_directory(path) || model::is_gguf_path(path);
  };
  const bool a = is_model(arguments.a), b = is_model(arguments.b);
  NIBBLE_REQUIRE(a == b, InvalidArgument, "diff: '{}' is a {}, '{}' a {}; expected two records or two checkpoints",
                 arguments.a.string(), a ? "checkpoint" : "record", arguments.b.string(), b ? "checkpoint" : "record");
  if (a) return show_checkpoint_diff(eval::diff_checkpoints(arguments.a, arguments.b), arguments.common.json);
  refuse_given(app, {"--threads"}, "two records");
  show_record_diff(eval::diff_records(eval::read_record(arguments.a), eval::read_record(arguments.b)),
                   arguments.common.json);
}

}  // namespace

Command diff_command(CLI::App& program) {
  auto arguments = std::make_shared<DiffArguments>();
  CLI::App* app = program.add_subcommand("diff", "Compare two records of a sweep, or two checkpoints");
  add_path(*app, "A", arguments->a, "", "A record (ID.json), or a checkpoint, float or quantized")->required();
  add_path(*app, "B", arguments->b, "", "What to compare it with")->required();
  add_threads(*app, arguments->common, "on checkpoints");
  add_json_flag(*app, arguments->common.json);
  app->footer(
      "Example:\n"
      "  nibble diff build/gpt2-demo-4bit build/gpt2-demo-3bit\n"
      "  nibble diff build/results/A.json build/results/B.json --json");
  return {app, [arguments, app] { run(*arguments, *app); }};
}

}  // namespace nibble::cli
