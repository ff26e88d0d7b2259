#include "cli/show/unexpected.h"

#include <string>

#include "cli/terminal/output.h"
#include "model/checkpoint/unexpected_tensors.h"

namespace nibble::cli {

void warn_of_unexpected(const model::Checkpoint& checkpoint) {
  for (const std::string& sentence : model::warnings(checkpoint)) warn(sentence);
}

}  // namespace nibble::cli
