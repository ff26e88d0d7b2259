#include "core/files/remove_directory.h"

#include <system_error>

namespace nibble {
namespace {

constexpr std::string_view kSuffix = ".removed";

}  // namespace

void remove_directory(const std::filesystem::path& directory) {
  std::error_code ignored, moved;
  const std::filesystem::path away = directory.string() + std::string(kSuffix);
  std::filesystem::remove_all(away, ignored);
  std::filesystem::rename(directory, away, moved);
  std::filesystem::remove_all(moved ? directory : away, ignored);
}

std::optional<std::string> name_before_removal(std::string_view name) {
  if (!name.ends_with(kSuffix)) return std::nullopt;
  return std::string(name.substr(0, name.size() - kSuffix.size()));
}

}  // namespace nibble
