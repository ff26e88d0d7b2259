#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/files/output_file.h"

namespace nibble::test {

/// An empty directory of its own, removed with its contents at the end of the scope. What this process writes there
/// does not wait for the disk: that took half of the time of tests that write much.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
  std::optional<UnflushedDirectory> unflushed_;
};

void write_file(const std::filesystem::path& path, std::string_view bytes);
std::string read_file(const std::filesystem::path& path);

/// A path inside the repository: source_path("tests/data/…"), source_path("datasets/demo/…").
std::filesystem::path source_path(std::string_view relative);

/// A path inside ../shared (models, texts and golden values that are not part of the repository).
std::filesystem::path shared_path(std::string_view relative);

}  // namespace nibble::test

/// First line of a test that needs a file of ../shared: skips (never passes) where it is absent.
#define NIBBLE_NEEDS_SHARED(relative) \
  if (!std::filesystem::exists(::nibble::test::shared_path(relative))) GTEST_SKIP() << "needs ../shared/" << (relative)
