#include "cli/program.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
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

// The word behind an option is its value to CLI11, another option's name too: of `--merge -o m.h5 a.h5` -o is the first
// file.
std::optional<std::string> option_as_value(const CLI::App& command, std::span<char* const> words) {
  for (std::size_t i = 0; i + 1 < words.size() && std::string_view(words[i]) != "--"; ++i) {
    const CLI::Option* option = *words[i] == '-' ? command.get_option_no_throw(words[i]) : nullptr;
    const std::string_view next = words[i + 1], name = next.substr(0, next.find('='));
    if (option == nullptr || option->get_items_expected_min() == 0 || !name.starts_with('-')) continue;
    if (command.get_option_no_throw(std::string(name)) != nullptr)
      return fmt::format("{0}: expected a value, got the option '{1}'; such a value is given as {0}={1}",
                         option->get_name(), name);
  }
  return std::nullopt;
}

// "--context: At Most 1 required but received 2", as CLI11 says it.
std::optional<std::string> repetition(std::string_view error) {
  constexpr std::string_view kMost = ": At Most 1 required but received ";
  const std::size_t found = error.find(kMost);
  if (found == std::string_view::npos) return std::nullopt;
  const std::string_view count = error.substr(found + kMost.size());
  return fmt::format("{} is given {}{}", error.substr(0, found), count == "2" ? "twice" : count,
                     count == "2" ? "" : " times");
}

// What nobody knows comes before whatever else CLI11 found wrong: a mistyped option also shows as a missing one.
std::string explain(const CLI::App& program, const CLI::App* command, const CLI::ParseError& error) {
  const std::vector<std::string> extras = program.remaining(true);
  if (command == nullptr && !extras.empty() && !extras.front().starts_with('-'))
    return fmt::format("unknown command '{}'{}", extras.front(), suggestion(program, extras.front()));
  for (const std::string& word : extras) {
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    if (command != nullptr && name.starts_with('-') && command->get_option_no_throw(std::string(name)) != nullptr)
      return fmt::format("expected '{0}' behind the command: nibble {1} {0}", name, command->get_name());
    if (name.starts_with('-'))
      return fmt::format("unknown option '{}'{}", name, suggestion(command != nullptr ? *command : program, name));
  }
  if (!extras.empty() && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)
    return fmt::format("unexpected argument '{}'", extras.front());
  const std::string_view text = error.what();
  if (text.ends_with(" missing")) return fmt::format("{}: a value is missing", text.substr(0, text.find(':')));
  return repetition(text).value_or(std::string(text));
}

int report(const CLI::App* command, std::string_view message, ExitCode code) {
  std::fflush(stdout);
  tell(fmt::format("nibble{}{}: error: {}\n", command != nullptr ? " " : "",
                   command != nullptr ? command->get_name() : "", printable(message)));
  return code;
}

int report_usage(const CLI::App* command, std::string_view message) {
  report(command, message, kExitUsage);
  tell(fmt::format("'nibble{}{} --help' lists what there is.\n", command != nullptr ? " " : "",
                   command != nullptr ? command->get_name() : ""));
  return kExitUsage;
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
  for (const Command& command : commands) {
    if (argc < 2 || command.options->get_name() != argv[1]) continue;
    if (const auto mistake = option_as_value(*command.options, std::span(argv, static_cast<std::size_t>(argc))))
      return report_usage(command.options, *mistake);
  }
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
    return report_usage(command, explain(program, command, error));
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
