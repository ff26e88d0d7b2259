#include "python/src/warnings.h"

#include <nanobind/nanobind.h>

#include "model/checkpoint/unexpected_tensors.h"

namespace nibble::python {

void warn(std::span<const std::string> sentences) {
  for (const std::string& sentence : sentences)
    if (PyErr_WarnEx(PyExc_UserWarning, sentence.c_str(), 1) != 0) throw nanobind::python_error();
}

void warn_of_unexpected(const model::Checkpoint& checkpoint) { warn(model::warnings(checkpoint)); }

}  // namespace nibble::python
