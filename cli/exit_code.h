#pragma once

#include <exception>
#include <string>

namespace nibble::cli {

/// What the program tells its caller; `nibble --help` lists them.
enum ExitCode : int {
  kExitOk = 0,
  kExitUnexpected = 1,    ///< a bug, or memory ran out
  kExitUsage = 2,         ///< InvalidArgument, and whatever the command line parser refuses
  kExitFile = 3,          ///< FormatError, and what the file system throws
  kExitNumerical = 4,     ///< NumericalError
  kExitInterrupted = 130  ///< Ctrl-C, SIGTERM
};

ExitCode exit_code_of(const std::exception& error);
/// What is told of it: its own text, of a bug after "unexpected: ".
std::string error_text(const std::exception& error);

}  // namespace nibble::cli
