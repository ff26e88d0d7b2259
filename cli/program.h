#pragma once

namespace nibble::cli {

/// The whole program: parses the command line, runs the subcommand, reports errors on standard error. Returns the exit
/// code (exit_code.h).
int run_program(int argc, char** argv);

}  // namespace nibble::cli
