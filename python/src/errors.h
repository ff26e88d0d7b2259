#pragma once

#include <nanobind/nanobind.h>

namespace nibble::python {

/// Adds Error and the three kinds of core/error.h to the module: each is also what Python calls such a thing
/// (ValueError, OSError, ArithmeticError), with the library's own message.
void bind_errors(nanobind::module_& module);

}  // namespace nibble::python
