#include "cli/program.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/terminal/output.h"
#include "cli/terminal/signals.h"
#include "cli/version.h"
#include "core/machine/isa.h"
#include "core/machine/program_identity.h"
#include "core/text/excerpt.h"
#include "core/text/suggest.h"

namespace nibble::cli {
namespace {

constexpr std::string_view kFooter =
    "Example:\n"
    "  nibble quantize datasets/demo/gpt2-demo --preset int4-block -o build/gpt2-demo-int4\n"
    "  nibble perplexity build/gpt2-demo-int4 --text datasets/demo/eval.txt\n"
    "\n"
    "Exit codes:\n"
    "  0    success\n"
    "  1    something unexpected (a bug, or memory ran out)\n"
    "  2    wrong usage: an unknown option, a value out of range, settings that do not fit together;\n"
    "       a recipe or a sweep that does not parse\n"
    "  3    a file is missing, malformed or cannot be written\n"
    "  4    a method could not finish on these numbers (NaN weights, for example)\n"
    "  130  interrupted; outputs appear under their names only when complete";

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::string suggestion(const CLI::App& app, std::string_view word) {
  const std::vector<std::string> names = names_of(app);
  // Commands for commands, options for options.
  std::vector<std::string_view> candidates;
  for (const std::string& name : names)
    if (name.starts_with('-') == word.starts_with('-')) candidates.push_back(name);
  return did_you_mean(word, candidates);
}

// What nobody knows comes before whatever else CLI11 found wrong: a mistyped option also shows as a missing one.
std::string explain(const CLI::App& program, const CLI::App* command, const CLI::ParseError& error) {
  const std::vector<std::string> extras = program.remaining(true);
  if (command == nullptr && !extras.empty() && !extras.front().starts_with('-'))
    return fmt::format("unknown command '{}'{}", extras.front(), suggestion(program, extras.front()));
  for (const std::string& word : extras) {
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    if (name.starts_with('-'))
      return fmt::format("unknown option '{}'{}", name, suggestion(command != nullptr ? *command : program, name));
  }
  if (!extras.empty() && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)
    return fmt::format("unexpected argument '{}'", extras.front());
  const std::string_view text = error.what();
  if (text.ends_with(" missing")) return fmt::format("{}: a value is missing", text.substr(0, text.find(':')));
  return std::string(text);
}

int report(const CLI::App* command, std::string_view message, ExitCode code) {
  std::fflush(stdout);
  tell(fmt::format("nibble{}{}: error: {}\n", command != nullptr ? " " : "",
                   command != nullptr ? command->get_name() : "", printable(message)));
  return code;
}

}  // namespace

int run_program(int argc, char** argv, std::span<const CommandMaker> makers) {
  occupy_standard_descriptors();
  install_signal_handlers();
  set_program_identity(program_identity_text());
  CLI::App program("Nibble: quantization research toolkit for language models", "nibble");
  program.footer(std::string(kFooter));
  program.set_version_flag("--version", "nibble " + version_facts().version);
  program.require_subcommand(1);
  program.get_formatter()->column_width(32);
  std::vector<Command> commands;
  for (const CommandMaker make : makers) commands.push_back(make(program));

  const auto selected = [&]() -> const Command* {
    for (const Command& command : commands)
      if (command.options->parsed()) return &command;
    return nullptr;
  };
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    try {
      program.exit(request);
      flush_output();
    } catch (const std::exception& error) {
      return report(nullptr, error_text(error), exit_code_of(error));
    }
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    const CLI::App* command = selected() != nullptr ? selected()->options : nullptr;
    if (argc < 2) {
      tell(program.help());
      return kExitUsage;
    }
    report(command, explain(program, command, error), kExitUsage);
    tell(fmt::format("'nibble{}{} --help' lists what there is.\n", command != nullptr ? " " : "",
                     command != nullptr ? command->get_name() : ""));
    return kExitUsage;
  }

  const Command& command = *selected();
  try {
    active_isa();  // says what is wrong with NIBBLE_FORCE_ISA, whether or not the command computes anything
    command.run();
    flush_output();
    return kExitOk;
  } catch (const std::exception& error) {
    return report(command.options, error_text(error), exit_code_of(error));
  }
}

}  // namespace nibble::cli
