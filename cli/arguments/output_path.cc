#include "cli/arguments/output_path.h"

#include <system_error>

#include "core/error.h"

namespace nibble::cli {

void create_parents(const std::filesystem::path& output) {
  const std::filesystem::path parent = output.parent_path();
  std::error_code error;
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  NIBBLE_REQUIRE(!error, FormatError, "cannot create directory '{}' for '{}': {}", parent.string(), output.string(),
                 error.message());
}

}  // namespace nibble::cli
