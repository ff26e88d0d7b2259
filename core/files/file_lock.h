#pragma once

#include <filesystem>
#include <optional>

#include "core/error.h"

namespace nibble {

/// The descriptor of `file`, created if need be, with its lock; none where another process holds that. Closing it ends
/// the lock. Throws FormatError: it cannot be created, or the file system gives no lock.
std::optional<int> lock_file(const std::filesystem::path& file);

/// The error of what another process writes.
FormatError is_being_written(const std::filesystem::path& what);

/// Whether `path` is the open file still.
bool has_name(int descriptor, const std::filesystem::path& path);

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

/// A FileLock on OUTPUT.lock, for work whose output has no other place for one. The file goes when this is destroyed;
/// one that cannot be removed is in nobody's way.
class OutputLock {
 public:
  /// Throws as FileLock does, naming `output`.
  explicit OutputLock(const std::filesystem::path& output);
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

 private:
  FileLock lock_;
};

/// Removes the OUTPUT.lock of a process that was killed once its output had its name. One that is held stays; one that
/// cannot be removed is in nobody's way.
void remove_left_lock(const std::filesystem::path& output);

/// A FileLock of a directory that is there, whatever name it is moved to. On file systems that lock no directories it
/// holds nothing.
class DirectoryLock {
 public:
  /// Throws FormatError: it cannot be opened, or another process holds it.
  DirectoryLock(const std::filesystem::path& directory, const std::filesystem::path& what);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  /// Whether `path` is this directory still.
  bool is(const std::filesystem::path& path) const;

 private:
  int descriptor_ = -1;
};

}  // namespace nibble
