#include "core/files/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/error.h"

namespace nibble {

FormatError is_being_written(const std::filesystem::path& what) {
  return FormatError(fmt::format("'{}': another process is writing it", what.string()));
}

bool has_name(int descriptor, const std::filesystem::path& path) {
  struct stat mine = {}, there = {};
  return ::fstat(descriptor, &mine) == 0 && ::stat(path.c_str(), &there) == 0 && mine.st_dev == there.st_dev &&
         mine.st_ino == there.st_ino;
}

std::optional<int> lock_file(const std::filesystem::path& file) {
  while (true) {
    const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor < 0) throw errno_error(fmt::format("cannot create '{}'", file.string()), errno);
    const bool locked = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    const int error = errno;
    if (locked && has_name(descriptor, file)) return descriptor;
    ::close(descriptor);
    if (locked) continue;  // whoever had it removed it in between: others lock a new file of that name
    if (error == EWOULDBLOCK) return std::nullopt;
    throw errno_error(fmt::format("cannot lock '{}'", file.string()), error);
  }
}

FileLock::FileLock(std::filesystem::path file, const std::filesystem::path& what) : file_(std::move(file)) {
  const auto descriptor = lock_file(file_);
  if (!descriptor) throw is_being_written(what);
  descriptor_ = *descriptor;
}

FileLock::~FileLock() { ::close(descriptor_); }

void FileLock::remove_file() {
  std::error_code error;
  std::filesystem::remove(file_, error);
  if (error) throw FormatError(fmt::format("cannot remove '{}': {}", file_.string(), error.message()), error);
}

namespace {

std::filesystem::path lock_of(const std::filesystem::path& output) { return output.string() + ".lock"; }

}  // namespace

OutputLock::OutputLock(const std::filesystem::path& output) : lock_(lock_of(output), output) {}

OutputLock::~OutputLock() {
  try {
    lock_.remove_file();
  } catch (const FormatError&) {
  }
}

void remove_left_lock(const std::filesystem::path& output) {
  std::error_code error;
  if (!std::filesystem::exists(lock_of(output), error)) return;
  try {
    const OutputLock lock(output);
  } catch (const FormatError&) {
  }
}

DirectoryLock::DirectoryLock(const std::filesystem::path& directory, const std::filesystem::path& what)
    : descriptor_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw errno_error(fmt::format("cannot open '{}'", directory.string()), errno);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  throw is_being_written(what);
}

DirectoryLock::~DirectoryLock() { ::close(descriptor_); }

bool DirectoryLock::is(const std::filesystem::path& path) const { return has_name(descriptor_, path); }

}  // namespace nibble
