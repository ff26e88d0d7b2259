#include "cli/exit_code.h"

#include "core/error_kind.h"

namespace nibble::cli {

ExitCode exit_code_of(const std::exception& error) {
  switch (error_kind(error)) {
    case ErrorKind::kInvalidArgument:
      return kExitUsage;
    case ErrorKind::kFormatError:
      return kExitFile;
    case ErrorKind::kNumericalError:
      return kExitNumerical;
    case ErrorKind::kOutOfMemory:
    case ErrorKind::kUnexpected:
      break;
  }
  return kExitUnexpected;
}

std::string error_text(const std::exception& error) {
  switch (error_kind(error)) {
    case ErrorKind::kOutOfMemory:
      return "out of memory";
    case ErrorKind::kUnexpected:
      return std::string("unexpected: ") + error.what();
    default:
      return error.what();
  }
}

}  // namespace nibble::cli
