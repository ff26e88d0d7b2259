#pragma once

#include <CLI/App.hpp>
#include <span>

#include "cli/command.h"

namespace nibble::cli {

using CommandMaker = Command (*)(CLI::App& program);

/// The whole program: parses the command line, runs the subcommand (one of `makers`), reports errors on standard error.
/// Returns the exit code (exit_code.h).
int run_program(int argc, char** argv, std::span<const CommandMaker> makers);

}  // namespace nibble::cli
