#pragma once

#include <filesystem>

namespace nibble {

/// Says that this process is writing something: held until destroyed or the process ends, however it does. Advisory
/// (flock).
class FileLock {
 public:
  /// Creates `file` if need be. Throws FormatError: it cannot be created, or another process holds it; `what` is what
  /// is being written, for that message.
  FileLock(std::filesystem::path file, const std::filesystem::path& what);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// Removes the file as well, while the lock is still held.
  void remove_file();

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
};

}  // namespace nibble
