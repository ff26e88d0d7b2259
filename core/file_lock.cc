#include "core/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "core/error.h"

namespace nibble {

FileLock::FileLock(std::filesystem::path file, const std::filesystem::path& what) : file_(std::move(file)) {
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw errno_error(fmt::format("cannot create '{}'", file_.string()), errno);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(descriptor_);
  throw FormatError(fmt::format("'{}': another process is writing it", what.string()));
}

FileLock::~FileLock() { ::close(descriptor_); }

void FileLock::remove_file() {
  std::error_code error;
  std::filesystem::remove(file_, error);
  if (error) throw FormatError(fmt::format("cannot remove '{}': {}", file_.string(), error.message()), error);
}

}  // namespace nibble
