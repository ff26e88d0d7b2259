#pragma once

#include <exception>
#include <string_view>

namespace nibble {

/// What went wrong, as exit codes and records have it. Derived errors are what they derive from; errors of the file
/// system are of files whoever threw them.
enum class ErrorKind { kInvalidArgument, kFormatError, kNumericalError, kOutOfMemory, kUnexpected };

ErrorKind error_kind(const std::exception& error);

/// "InvalidArgument", "FormatError", "NumericalError", "OutOfMemory", "Unexpected".
std::string_view error_kind_name(ErrorKind kind);

}  // namespace nibble
