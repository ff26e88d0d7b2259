#include "python/src/warnings.h"

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include "model/checkpoint/unexpected_tensors.h"

namespace nibble::python {

void warn(std::span<const std::string> sentences) {
  for (const std::string& sentence : sentences)
    if (PyErr_WarnEx(PyExc_UserWarning, sentence.c_str(), 1) != 0) throw nanobind::python_error();
}

void warn_of_unexpected(const model::Checkpoint& checkpoint) {
  if (const std::string sentence = model::describe_unexpected_tensors(checkpoint); !sentence.empty())
    warn({&sentence, 1});
  if (const auto beyond = model::warning_of_special_tokens(checkpoint.architecture())) {
    const std::string sentence = fmt::format("'{}': {}", checkpoint.directory().string(), *beyond);
    warn({&sentence, 1});
  }
}

}  // namespace nibble::python
