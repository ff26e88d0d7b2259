#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <system_error>

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
  explicit FormatError(const std::string& text, std::error_code reason = {}) : Error(text), code(reason) {}
  std::error_code code;  ///< the operating system's reason; none where it had no part
};
/// A method could not finish, for example NaN weights or a Hessian that is not positive definite. Exit code 4.
struct NumericalError : Error {
  using Error::Error;
};

/// A FormatError "what: reason" that carries the value of errno.
inline FormatError errno_error(const std::string& what, int error) {
  const std::error_code code(error, std::generic_category());
  return FormatError(what + ": " + code.message(), code);
}

}  // namespace nibble

/// Throws `kind` with a formatted message unless `condition` holds. The message is formatted only on failure.
#define NIBBLE_REQUIRE(condition, kind, ...)                          \
  do {                                                                \
    if (!(condition)) throw ::nibble::kind(fmt::format(__VA_ARGS__)); \
  } while (false)
