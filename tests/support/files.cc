#include "tests/support/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace nibble::test {

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "nibble-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a directory like " + pattern);
  path_ = pattern;
  unflushed_.emplace(path_);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

std::filesystem::path source_path(std::string_view relative) {
  return std::filesystem::path(NIBBLE_SOURCE_DIR) / relative;
}

std::filesystem::path shared_path(std::string_view relative) {
  return std::filesystem::path(NIBBLE_SOURCE_DIR) / ".." / "shared" / relative;
}

}  // namespace nibble::test
