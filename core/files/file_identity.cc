#include "core/files/file_identity.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <system_error>

namespace nibble {

std::string file_identity(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) == 0) return fmt::format("file {} of device {}", status.st_ino, status.st_dev);
  std::error_code error;
  const std::filesystem::path place = std::filesystem::weakly_canonical(std::filesystem::absolute(file, error), error);
  return error ? file.lexically_normal().string() : place.string();
}

}  // namespace nibble
