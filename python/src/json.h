#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace nibble::python {

/// Python's own objects for a JSON text that the library wrote: what the command line prints with --json.
inline nanobind::object from_json(const std::string& text) {
  return nanobind::module_::import_("json").attr("loads")(text);
}

}  // namespace nibble::python
