#include "cli/show/unexpected.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "cli/terminal/output.h"
#include "model/checkpoint/unexpected_tensors.h"

namespace nibble::cli {

void warn_of_unexpected_tensors(const model::Checkpoint& checkpoint) {
  std::vector<std::string> names = model::unexpected_tensors(checkpoint);
  if (names.empty()) return;
  constexpr std::size_t kShown = 8;
  const std::size_t count = names.size();
  names.resize(std::min(count, kShown));
  warn(fmt::format("'{}': config.json asks for no tensor {}{}: left out", checkpoint.directory().string(),
                   fmt::join(names, ", "), count > kShown ? fmt::format(" and {} more", count - kShown) : ""));
}

}  // namespace nibble::cli
