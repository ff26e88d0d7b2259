#include "core/error_kind.h"

#include <filesystem>
#include <new>

#include "core/error.h"

namespace nibble {

ErrorKind error_kind(const std::exception& error) {
  if (dynamic_cast<const InvalidArgument*>(&error) != nullptr) return ErrorKind::kInvalidArgument;
  if (dynamic_cast<const FormatError*>(&error) != nullptr) return ErrorKind::kFormatError;
  if (dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr) return ErrorKind::kFormatError;
  if (dynamic_cast<const NumericalError*>(&error) != nullptr) return ErrorKind::kNumericalError;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return ErrorKind::kOutOfMemory;
  return ErrorKind::kUnexpected;
}

std::string_view error_kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return "InvalidArgument";
    case ErrorKind::kFormatError:
      return "FormatError";
    case ErrorKind::kNumericalError:
      return "NumericalError";
    case ErrorKind::kOutOfMemory:
      return "OutOfMemory";
    case ErrorKind::kUnexpected:
      break;
  }
  return "Unexpected";
}

}  // namespace nibble
