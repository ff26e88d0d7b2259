#include "core/files/remove_directory.h"

#include <string>
#include <system_error>

namespace nibble {

void remove_directory(const std::filesystem::path& directory) {
  std::error_code ignored, moved;
  const std::filesystem::path away = directory.string() + std::string(kRemovedSuffix);
  std::filesystem::remove_all(away, ignored);
  std::filesystem::rename(directory, away, moved);
  std::filesystem::remove_all(moved ? directory : away, ignored);
}

}  // namespace nibble
