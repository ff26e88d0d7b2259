#include "cli/show/unexpected.h"

#include <string>

#include "cli/terminal/output.h"
#include "model/checkpoint/unexpected_tensors.h"

namespace nibble::cli {

void warn_of_unexpected_tensors(const model::Checkpoint& checkpoint) {
  if (const std::string sentence = model::describe_unexpected_tensors(checkpoint); !sentence.empty()) warn(sentence);
}

}  // namespace nibble::cli
