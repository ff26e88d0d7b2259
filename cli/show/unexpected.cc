#include "cli/show/unexpected.h"

#include <fmt/format.h>

#include <string>

#include "cli/terminal/output.h"
#include "model/checkpoint/unexpected_tensors.h"

namespace nibble::cli {

void warn_of_unexpected(const model::Checkpoint& checkpoint) {
  if (const std::string sentence = model::describe_unexpected_tensors(checkpoint); !sentence.empty()) warn(sentence);
  if (const auto sentence = model::warning_of_special_tokens(checkpoint.architecture()))
    warn(fmt::format("'{}': {}", checkpoint.directory().string(), *sentence));
}

}  // namespace nibble::cli
