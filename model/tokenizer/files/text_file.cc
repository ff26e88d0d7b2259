#include "model/tokenizer/files/text_file.h"

#include <cerrno>
#include <fstream>

#include "core/error.h"

namespace nibble::model {

bool file_exists(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) || error;
}

std::string read_text_file(const std::filesystem::path& path) {
  constexpr std::uintmax_t kMaxBytes = std::uintmax_t{256} << 20;
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  NIBBLE_REQUIRE(!error, FormatError, "{}: cannot read: {}", path.string(), error.message());
  NIBBLE_REQUIRE(size <= kMaxBytes, FormatError, "{}: {} bytes are more than a tokenizer file may have ({})",
                 path.string(), size, kMaxBytes);
  std::string bytes(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) throw errno_error(path.string() + ": cannot read", errno);
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  NIBBLE_REQUIRE(file.good(), FormatError, "{}: cannot read {} bytes", path.string(), size);
  return bytes;
}

}  // namespace nibble::model
