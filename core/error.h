#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace nibble {

/// Base of what the libraries throw on purpose. The text says what (operation, tensor, file), expected, got, hint.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The caller broke a documented requirement (a wrong option, shape or value). Exit code 2.
struct InvalidArgument : Error {
  using Error::Error;
};
/// A file is missing, truncated, malformed or hostile, or cannot be written. Exit code 3.
struct FormatError : Error {
  using Error::Error;
};
/// A method could not finish, for example NaN weights or a Hessian that is not positive definite. Exit code 4.
struct NumericalError : Error {
  using Error::Error;
};

}  // namespace nibble

/// Throws `kind` with a formatted message unless `condition` holds. The message is formatted only on failure.
#define NIBBLE_REQUIRE(condition, kind, ...)                          \
  do {                                                                \
    if (!(condition)) throw ::nibble::kind(fmt::format(__VA_ARGS__)); \
  } while (false)
