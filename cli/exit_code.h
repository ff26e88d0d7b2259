#pragma once

namespace nibble::cli {

/// What the program tells its caller; `nibble --help` lists them.
enum ExitCode : int {
  kExitOk = 0,
  kExitUnexpected = 1,    ///< a bug, or memory ran out
  kExitUsage = 2,         ///< InvalidArgument, and whatever the command line parser refuses
  kExitFile = 3,          ///< FormatError
  kExitNumerical = 4,     ///< NumericalError
  kExitInterrupted = 130  ///< Ctrl-C, SIGTERM
};

}  // namespace nibble::cli
